"""Raw figures of a comparison that were measured at more than one time."""


def joined(earlier, later, order):
    """The later document, with what the earlier one has of systems that the later one has not, and
    of rows that it has left out. `order` are the names of all systems that there are now."""
    measured = [system["name"] for system in later["systems"]]
    what = later.get("what", "")

    def others(entries, key):
        return [entry for entry in entries
                if entry[key] not in measured or what not in entry.get("what", "")]

    def unlike(entries):
        return [entry for entry in entries if entry["name"] not in measured]

    def place(system):
        return order.index(system["name"]) if system["name"] in order else len(order)

    times = []
    for time in earlier.get("later", []):
        left = [name for name in time["systems"]
                if name not in measured or what not in time.get("what", "")]
        if left:
            times.append({**time, "systems": left})
    times.append({"systems": measured, "started": later["started"], "versions": later["versions"],
                  "what": what})
    return {
        **earlier,
        "systems": sorted(unlike(earlier["systems"]) + later["systems"], key=place),
        "results": others(earlier["results"], "system") + later["results"],
        "later": times,
    }
