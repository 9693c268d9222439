"""The runs of a comparison, gathered: one cell for each row, system and set of facts."""

from compare import arithmetic

FACTS = ("size", "senders", "waiting", "load", "what", "count")


def _dig(entry, path):
    for key in path.split("."):
        if not isinstance(entry, dict) or key not in entry:
            return None
        entry = entry[key]
    return entry


class Cell:
    """All runs of one thing."""

    def __init__(self, entries):
        self.entries = entries
        self.good = [entry for entry in entries if "failed" not in entry]

    def __bool__(self):
        return bool(self.good)

    def spread(self, path):
        return arithmetic.spread([_dig(entry, path) for entry in self.good])

    def median(self, path):
        found = self.spread(path)
        return found["median"] if found else None

    def total(self, name):
        return sum(_dig(entry, name) or 0 for entry in self.good)

    def failures(self):
        return [entry["failed"] for entry in self.entries if "failed" in entry]

    def problems(self):
        return [entry["problem"] for entry in self.good if entry.get("problem")]


class Summary:
    def __init__(self, document):
        self.document = document
        self.systems = [s for s in document["systems"] if not s["missing"]]
        self.missing = [s for s in document["systems"] if s["missing"]]
        self._cells = {}
        for entry in document["results"]:
            self._cells.setdefault(self._key(entry["row"], entry["system"], entry), []).append(entry)

    @staticmethod
    def _key(row, system, facts):
        return (row, system, *(facts.get(name) for name in FACTS))

    def cell(self, row, system, **facts):
        return Cell(self._cells.get(self._key(row, system, facts), []))

    def of(self, row, system):
        """All runs of a row, whatever their facts."""
        found = [entries for key, entries in self._cells.items() if key[:2] == (row, system)]
        return Cell([entry for entries in found for entry in entries])

    def values(self, row, fact):
        """Which values of a fact a row was measured with, in the order of measuring."""
        seen = dict.fromkeys(entry.get(fact) for entry in self.document["results"]
                             if entry["row"] == row)
        return [value for value in seen if value is not None]

    def names(self, kinds=None, rivals=None, ours=None, limits=False):
        """Names of systems: of these kinds; rivals, ours, or both."""
        found = []
        for system in self.systems:
            is_ours = system["family"] == "atbus"
            if kinds and system["kind"] not in kinds:
                continue
            if system["limit"] and not limits:
                continue
            if (rivals and is_ours) or (ours and not is_ours):
                continue
            found.append(system["name"])
        return found

    def best(self, names, value, largest=True):
        """(value, name) of the best of them; None if nobody has one."""
        found = [(value(name), name) for name in names]
        found = [pair for pair in found if pair[0] is not None]
        return (max if largest else min)(found) if found else None
