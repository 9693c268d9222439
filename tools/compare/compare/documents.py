"""Raw figures of a comparison that were measured at more than one time."""


def joined(earlier, later, order):
    """The later document, with what the earlier one has of systems that the later one has not.
    `order` are the names of all systems that there are now."""
    measured = [system["name"] for system in later["systems"]]

    def others(entries, key):
        return [entry for entry in entries if entry[key] not in measured]

    def place(system):
        return order.index(system["name"]) if system["name"] in order else len(order)

    times = []
    for time in earlier.get("later", []):
        left = [name for name in time["systems"] if name not in measured]
        if left:
            times.append({**time, "systems": left})
    times.append({"systems": measured, "started": later["started"],
                  "versions": later["versions"]})
    return {
        **earlier,
        "systems": sorted(others(earlier["systems"], "name") + later["systems"], key=place),
        "results": others(earlier["results"], "system") + later["results"],
        "later": times,
    }
