"""Writes doc/comparison: index.md, index.html, and the plots as files."""

import html
import os

from compare import states, targets
from compare.summary import Summary
from compare.tables import Table, all_tables

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1240px; margin: 2em auto; padding: 0 1em;
       color: #222; }
table { border-collapse: collapse; font-size: 13px; display: block; overflow-x: auto; }
td, th { border: 1px solid #ddd; padding: 3px 8px; text-align: right; white-space: nowrap; }
td:first-child, th:first-child { text-align: left; position: sticky; left: 0; background: #fff; }
table.text td, table.text th { text-align: left; }
tr.ours td { background: #fdf0ee; } td.bad { color: #c1121f; font-weight: bold; }
td.good { color: #2b7a0b; } p.note { color: #555; max-width: 60em; }
figure { margin: 1.5em 0; overflow-x: auto; } figure svg { max-width: 100%; height: auto; }
"""


def _facts(summary, found, moved):
    document = summary.document
    machine = document["machine"]
    virtual = "virtual machine" if machine["virtual"] else "no virtual machine"
    facts = [
        ("machine", f"{machine['processor']}, {machine['mhz']} MHz, {machine['cores']} cores, "
                    f"{machine['memory_gib']} GiB, {virtual}"),
        ("kernel", machine["kernel"]),
        ("compiler", machine["compiler"]),
        ("versions", ", ".join(f"{name} {text}" for name, text in document["versions"].items())),
        ("measured", f"{document['started']}, {document['seconds'] // 60} min, "
                     f"plan \"{document['plan']}\""),
    ]
    if len(found) == 1:
        facts.append(("cores", found[0].text()))
    else:
        facts.append(("cores", f"how far they are from each other has changed: {len(found)} states, each with "
                               "tables of its own, which lack what was not measured in it; the targets and the "
                               "plots are of the first one"))
    if moved:
        facts.append(("left out", f"{moved} runs during which that changed, or in whose state there were hardly any others"))
    for later in document.get("later", []):
        rows = f" (rows with \"{later['what']}\")" if later.get("what") else ""
        rows = f" ({later['rows']})" if later.get("rows") else rows
        facts.append(("measured at another time", f"{', '.join(later['systems'])}{rows}: {later['started']}, "
                                                  f"atbus {later['versions'].get('atbus', '-')}"))
    for system in summary.missing:
        facts.append(("missing", f"{system['name']}: {system['missing']}"))
    return facts


INTRODUCTION = (
    "One command makes this page: `tools/compare/compare.sh --full`. Every system does the same work "
    "under the same checks, from one harness: sender and receiver are processes with a core each "
    "(their helper threads included), every byte is written by the sender and compared by the "
    "receiver, what is lost, corrupt or out of order is counted in each table. Systems take turns "
    "within each round; figures are medians, with lowest and highest. Absolute figures belong to "
    "this machine: compare columns, and the bare sockets and pipe, which are limits of the kernel, "
    "not rivals. A system that is missing could not be installed; one that failed says how.")


def _sections(document, found):
    """(title, tables) of each state; a single one needs no title."""
    sections = []
    for state in found:
        summary = Summary({**document, "results": state.entries})
        title = "" if len(found) == 1 else f"{len(state.entries)} runs: {state.text()}"
        # Targets compare with the best of all, and not all have been measured in the other states.
        first = [] if sections and state.us else [_target_table(summary)]
        sections.append((title, [*first, *all_tables(summary)]))
    return sections


def _target_table(summary):
    return Table("Targets", "What atbus is for, each reached or by how much missed.",
                 ["target", "verdict", "figures"],
                 [list(line) for line in targets.Targets(summary).all() if line[1] != "not measured"])


def markdown(facts, sections, plots, raw):
    lines = ["# atbus and its rivals", "", INTRODUCTION, ""]
    lines += [f"- {name}: {text}" for name, text in facts]
    lines += [f"- raw figures: [{raw}]({raw}); the same page with plots: index.html", ""]
    for name, (title, _) in plots.items():
        lines += [f"![{title}]({name}.svg)", ""]
    for title, tables in sections:
        if title:
            lines += [f"# {title}", ""]
        for table in tables:
            lines += _markdown_table(table)
    return "\n".join(lines)


def _markdown_table(table):
    return [f"## {table.title}", table.note, "",
            "| " + " | ".join(table.head) + " |",
            "| --- " + "| ---: " * (len(table.head) - 1) + "|",
            *("| " + " | ".join(cell.replace("|", "/") for cell in row) + " |" for row in table.body),
            ""]


def _cell(head, text):
    bad = (head in ("lost", "corrupt", "failed") and text not in ("0", "-")
           or text.startswith(("missed", "failed")))
    kind = ' class="bad"' if bad else ' class="good"' if text == "reached" else ""
    return f"<td{kind}>{html.escape(text)}</td>"


def _html_table(table):
    lines = [f"<h2>{html.escape(table.title)}</h2>", f'<p class="note">{html.escape(table.note)}</p>',
             ('<table class="text"><tr>' if table.head[0] == "target" else "<table><tr>") + "".join(f"<th>{html.escape(head)}</th>" for head in table.head) + "</tr>"]
    for row in table.body:
        kind = ' class="ours"' if row[0].startswith("atbus") else ""
        cells = "".join(_cell(head, text) for head, text in zip(table.head, row))
        lines.append(f"<tr{kind}>{cells}</tr>")
    return "\n".join([*lines, "</table>"])


def _inline(svg, name):
    """SVG inside a page: without its prologue, and with identifiers of its own."""
    svg = svg[svg.index("<svg"):]
    return svg.replace('id="', f'id="{name}-').replace(
        "url(#", f"url(#{name}-").replace('xlink:href="#', f'xlink:href="#{name}-')


def page(facts, sections, plots):
    lines = ["<!DOCTYPE html>", '<html lang="en"><head><meta charset="utf-8">',
             "<title>atbus and its rivals</title>", f"<style>{STYLE}</style></head><body>",
             "<h1>atbus and its rivals</h1>", f"<p>{html.escape(INTRODUCTION)}</p><ul>"]
    lines += [f"<li>{name}: {html.escape(text)}</li>" for name, text in facts]
    lines.append("</ul>")
    lines += [f"<figure>{_inline(svg, name)}</figure>" for name, (_, svg) in plots.items()]
    for title, tables in sections:
        if title:
            lines.append(f"<h1>{html.escape(title)}</h1>")
        lines += [_html_table(table) for table in tables]
    return "\n".join([*lines, "</body></html>", ""])


def write(document, directory):
    found, moved = states.split(document["results"])
    found = found or [states.State([])]
    sections = _sections(document, found)
    summary = Summary({**document, "results": found[0].entries})
    facts = _facts(summary, found, moved)
    try:
        from compare.plots import all_plots  # needs matplotlib; tables do not

        plots = all_plots(summary)
    except ImportError:
        plots = {}
    os.makedirs(directory, exist_ok=True)
    texts = {f"{name}.svg": svg for name, (_, svg) in plots.items()}
    texts["index.md"] = markdown(facts, sections, plots, f"raw/{document['plan']}.json")
    texts["index.html"] = page(facts, sections, plots)
    for name, text in texts.items():
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            file.write(text)
