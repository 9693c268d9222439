"""The status page against real processes, in a headless Chromium. tools/script/test_page.sh runs this."""

import re
import unittest

import stand_in
from browser import Browser
from bus import RELAY_ID, Bus
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from waiting import until

ONE, TWO, THREE = RELAY_ID + 1, RELAY_ID + 2, RELAY_ID + 3
NO_ANSWER = "Failed to load resource"  # what Chromium itself says of a request without an answer


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.expected_errors = ()
        self.browser.show_as()
        self.browser.errors()
        # Behind the others: those close what the page asks.
        self.addCleanup(self.browser.open, "about:blank")

    def tearDown(self):
        errors = [text for text in self.browser.errors() if not any(word in text for word in self.expected_errors)]
        self.assertEqual(errors, [])

    def open_bus(self):
        bus = Bus()
        self.addCleanup(bus.close)
        self.browser.open(bus.url)
        self.browser.wait_for_life(RELAY_ID, "live")
        return bus

    def open_stand_in(self, *nodes):
        server = stand_in.StandIn(stand_in.answer(*nodes))
        self.addCleanup(server.close)
        self.browser.open(server.url)
        return server

    def wait_for_answers(self):
        at = self.browser.run("return latest.at")
        until(lambda: self.browser.run("return latest.at") > at + 3e9, "three seconds of answers")

    def rate_of(self, number):
        text = self.browser.text(f'#graph .node[data-node="{number:#x}"] .life')
        return float(re.sub(r"[^\d.]", "", text) or 0) if "/s" in text else 0


class Graph(PageTest):
    def test_nodes_appear(self):
        bus = self.open_bus()
        self.assertIsNone(self.browser.life(ONE))
        bus.start_node(ONE, "gamesvr")
        self.browser.wait_for_life(ONE, "live")
        self.browser.wait_for_text(f'#rows tr[data-node="{ONE:#x}"]', "gamesvr")
        self.browser.wait_for_text("#summary", "2 nodes: 2 live")
        until(lambda: self.browser.all('.edge[data-kind=tree][data-state=linked]'), "a line between the two")
        boxes = [self.browser.one(f'.node[data-node="{number:#x}"] .box').rect for number in (RELAY_ID, ONE)]
        self.assertLess(boxes[0]["y"] + boxes[0]["height"], boxes[1]["y"], "the parent stands above")

    def test_a_node_that_ends_in_order_goes(self):
        bus = self.open_bus()
        node = bus.start_node(ONE, "gamesvr", reports=False)
        self.browser.wait_for_life(ONE, "known")
        self.assertIn("known through", self.browser.text(f'.node[data-node="{ONE:#x}"]'))
        node.terminate()
        until(lambda: self.browser.life(ONE) is None, "the node goes")

    def test_a_killed_node_turns_red(self):
        bus = self.open_bus()
        node = bus.start_node(ONE, "gamesvr")
        bus.start_node(TWO, "matchsvr")
        self.browser.wait_for_life(ONE, "live")
        self.browser.wait_for_life(TWO, "live")
        bus.kill(node)
        self.browser.wait_for_life(ONE, "dead", seconds=3)
        box = f'.node[data-node="{ONE:#x}"]'
        self.assertIn("dead", self.browser.text(box))
        red, green, blue = self.colour_of(f"{box} .box", "stroke")
        self.assertGreater(red, green + 100)
        self.assertGreater(red, blue + 100)
        self.browser.wait_for_text("#trouble", f"{ONE:#x} (gamesvr) is dead: its process ended without closing it")
        self.assertEqual(self.browser.life(TWO), "live")
        until(lambda: self.browser.all('.edge[data-state=broken]'), "the line to it is broken")

    def colour_of(self, selector, name):
        text = self.browser.one(selector).value_of_css_property(name)
        return [float(number) for number in re.findall(r"[\d.]+", text)[:3]]

    def test_the_next_incarnation_is_live_again(self):
        bus = self.open_bus()
        bus.kill(self.start_and_see(bus, ONE))
        self.browser.wait_for_life(ONE, "dead", seconds=3)
        self.start_and_see(bus, ONE)

    def start_and_see(self, bus, number):
        node = bus.start_node(number)
        self.browser.wait_for_life(number, "live")
        return node

    def test_boxes_stay_where_they_are(self):
        bus = self.open_bus()
        for number in (ONE, TWO, THREE):
            self.start_and_see(bus, number)
        places = "return [...document.querySelectorAll('#graph .node')].map(node => node.style.transform)"
        before = self.browser.run(places)
        self.wait_for_answers()
        self.assertEqual(self.browser.run(places), before)

    def test_circles_of_parents_are_cut(self):
        self.open_stand_in(stand_in.node(1, 2), stand_in.node(2, 3), stand_in.node(3, 1), stand_in.node(4, 4))
        for number in (1, 2, 3, 4):
            self.browser.wait_for_life(number, "live")

    def test_two_hundred_nodes_are_readable_and_more_are_a_table(self):
        def crowd(count):
            below = [stand_in.node(100 + i, 1) for i in range(count - 1)]
            return stand_in.node(1, peers=[stand_in.peer(100 + i) for i in range(count - 1)]), *below

        for width in (1280, 360):
            self.browser.show_as(width, 740)
            server = self.open_stand_in(*crowd(200))
            until(lambda: len(self.browser.all("#graph .node")) == 200, "200 boxes")
            self.assertEqual(self.browser.run(OVERLAPPING_BOXES), [])
            self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), width)
        server.answer = stand_in.answer(*crowd(201))
        until(lambda: len(self.browser.all("#graph .node")) == 0, "no boxes")
        self.browser.wait_for_text("#too-many", "too many for a picture")
        until(lambda: len(self.browser.all("#rows tr")) == 201, "all in the table")
        self.browser.one("#filter").send_keys("0x6")
        until(lambda: 0 < len(self.browser.all("#graph .node")) < 20, "those of the filter")

    def test_a_deep_tree_fits_a_phone(self):
        self.browser.show_as(360, 740)
        nodes = [stand_in.node(1)] + [stand_in.node(i, i // 3) for i in range(3, 60)] + [stand_in.node(2, 1)]
        self.open_stand_in(*nodes)
        until(lambda: len(self.browser.all("#graph .node")) == len(nodes), "all boxes")
        self.assertEqual(self.browser.run(OVERLAPPING_BOXES), [])
        self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), 360)


OVERLAPPING_BOXES = """
const boxes = [...document.querySelectorAll('#graph .node')].map(node => [node.dataset.node, node.style.transform
  .match(/-?[\\d.]+/g).map(Number)]);
const found = [];
for (const [name, [x, y]] of boxes)
  for (const [other, [u, v]] of boxes)
    if (name < other && Math.abs(x - u) < 148 && Math.abs(y - v) < 62) found.push([name, other]);
const outside = boxes.filter(([, [x]]) => x < 0 || x + 148 > document.getElementById('graph').clientWidth + 0.5);
return [...found, ...outside];
"""


class Rates(PageTest):
    def test_a_rate_moves(self):
        bus = self.open_bus()
        bus.start_node(ONE, "gamesvr")
        self.browser.wait_for_life(ONE, "live")
        self.assertEqual(self.rate_of(ONE), 0)
        sender = bus.start_node(TWO, "loadgen", traffic=(f"{ONE:#x}", 200, 100))
        until(lambda: 100 < self.rate_of(ONE) < 400, "the receiver has about 200 messages a second")
        until(lambda: 100 < self.rate_of(TWO) < 400, "so has the sender")
        self.browser.wait_for_text(f'#rows tr[data-node="{ONE:#x}"]', "kB/s")
        self.assertGreater(self.curve_height(ONE), 5)
        bus.kill(sender)
        until(lambda: self.rate_of(ONE) == 0, "and none without it")

    def curve_height(self, number):
        path = self.browser.one(f'#rows tr[data-node="{number:#x}"] .curve').get_attribute("d")
        heights = [float(point.split(" ")[1]) for point in path.removeprefix("M").split("L")]
        return max(heights) - min(heights)

    def test_a_slow_receiver_is_named(self):
        bus = self.open_bus()
        receiver = bus.start_node(ONE, "slowsvr")
        self.browser.wait_for_life(ONE, "live")
        bus.start_node(TWO, "loadgen", traffic=(f"{ONE:#x}", 20000, 1000))
        until(lambda: self.rate_of(ONE) > 0, "messages arrive")
        bus.stop(receiver)
        words = re.compile(r"in the last minute: (the receiver is slow|there was no way, or no room on it)")
        until(lambda: words.search(self.browser.text("#trouble")), "the refused sends are told", seconds=30)


class HostileTexts(PageTest):
    def test_names_and_addresses_are_text(self):
        bus = self.open_bus()
        listen = f"unix://{bus.folder}/<script>window.evil=1<script>"
        bus.start_node(ONE, "<i id=evil>\x1b[1m", listen=listen)
        self.browser.wait_for_life(ONE, "live")
        self.browser.wait_for_text(f'#rows tr[data-node="{ONE:#x}"]', "<i id=evil>")
        self.browser.one(f'#rows tr[data-node="{ONE:#x}"] button').click()
        self.browser.wait_for_text("#details", "<script>window.evil=1<script>")
        self.assertEqual(self.browser.all("#evil"), [])
        self.assertIsNone(self.browser.run("return window.evil ?? null"))
        self.assertNotIn("\x1b", self.browser.run("return document.body.textContent"))

    def test_no_text_reorders_or_hides_others(self):
        hostile = "a\u202eb\u200bc\x00d\u2028e<img src=x onerror=window.evil=1>"
        texts = dict.fromkeys(("relation", "channel", "address", "last_loss"), hostile)
        one_peer = stand_in.peer(7, last_loss_at=1, **texts)
        self.open_stand_in(
            stand_in.node(
                1, program=hostile, addresses=[hostile], version=hostile, stats={hostile: 1}, peers=[one_peer]
            ),
            {"path": hostile, "alive": False, "life": "unreadable", "problem": hostile, "text": hostile, "peers": []},
        )
        self.browser.wait_for_life(1, "live")
        self.browser.one('#rows tr[data-node="0x1"] button').click()
        self.browser.wait_for_text("#details", "<img src=x onerror=window.evil=1>")
        self.assertEqual(self.browser.all("img"), [])
        shown = self.browser.run(
            "return document.body.textContent + document.title + "
            "[...document.querySelectorAll('[aria-label]')].map(one => one.getAttribute('aria-label'))"
        )
        for character in "\u202e\u200b\x00\u2028":
            self.assertNotIn(character, shown)


class Answers(PageTest):
    def test_says_that_the_relay_is_gone(self):
        self.expected_errors = (NO_ANSWER,)
        bus = self.open_bus()
        bus.kill(bus.relay)
        self.browser.wait_for_text("#no-answer", "the node has ended, hangs, or cannot be reached")
        until(lambda: re.search(r"No answer since [3-9] s", self.browser.text("#no-answer")), "for how long")
        self.assertEqual(self.browser.text("#announcement"), "The node does not answer.")
        bus.start_relay()
        until(lambda: self.browser.text("#no-answer") == "", "the relay answers again", seconds=20)

    def test_says_that_a_relay_hangs(self):
        bus = self.open_bus()
        bus.stop(bus.relay)
        self.browser.wait_for_text("#no-answer", "hangs", seconds=15)

    def test_says_what_the_relay_says(self):
        self.expected_errors = (NO_ANSWER,)
        server = self.open_stand_in(stand_in.node(1))
        self.browser.wait_for_life(1, "live")
        server.status, server.answer = 503, {"at": 1, "self": "1", "nodes": [], "text": "the directory is gone"}
        self.browser.wait_for_text("#no-answer", "the error 503, the directory is gone")
        server.status, server.answer = 200, b"<html>"
        self.browser.wait_for_text("#no-answer", "what came was no status of atbus")

    def test_asks_nobody_but_the_relay(self):
        self.open_bus()
        self.wait_for_answers()
        names = self.browser.run("return performance.getEntriesByType('resource').map(entry => entry.name)")
        url = self.browser.driver.current_url
        self.assertEqual(set(names), {f"{url}status.json"})


class Reading(PageTest):
    def open_scene(self):
        bus = self.open_bus()
        bus.start_node(ONE, "gamesvr")
        dead = bus.start_node(TWO, "matchsvr")
        bus.start_node(THREE, "dbproxy", reports=False)
        self.browser.wait_for_life(ONE, "live")
        self.browser.wait_for_life(TWO, "live")
        self.browser.wait_for_life(THREE, "known")
        bus.kill(dead)
        self.browser.wait_for_life(TWO, "dead")
        return bus

    def test_fits_a_phone(self):
        self.browser.show_as(360, 740)
        self.open_scene()
        self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), 360)
        self.assertEqual(self.browser.run(WIDER_THAN_THE_PAGE), [])
        self.browser.one(f'#rows tr[data-node="{ONE:#x}"] button').click()
        self.browser.wait_for_text("#details", "gamesvr")
        self.assertEqual(self.browser.run(WIDER_THAN_THE_PAGE), [])

    def test_has_contrast_in_both_schemes(self):
        self.open_scene()
        self.browser.one(f'#rows tr[data-node="{RELAY_ID:#x}"] button').click()
        for scheme in ("light", "dark"):
            self.browser.show_as(scheme=scheme)
            self.assertEqual(self.browser.run(LOW_CONTRAST), [], scheme)

    def test_the_schemes_differ_and_a_choice_stays(self):
        self.open_bus()
        colour = "return getComputedStyle(document.body).backgroundColor"
        light = self.browser.run(colour)
        self.browser.show_as(scheme="dark")
        dark = self.browser.run(colour)
        self.assertNotEqual(light, dark)
        self.browser.one("#theme").click()
        self.assertEqual((self.browser.run(colour), self.browser.text("#theme")), (light, "Colours: light"))
        self.browser.driver.refresh()
        self.assertEqual(self.browser.run(colour), light)
        self.browser.one("#theme").click()
        self.browser.show_as(scheme="light")
        self.assertEqual((self.browser.run(colour), self.browser.text("#theme")), (dark, "Colours: dark"))
        self.browser.one("#theme").click()

    def test_works_with_keys_alone(self):
        bus = self.open_bus()
        bus.start_node(ONE, "gamesvr")
        self.browser.wait_for_life(ONE, "live")
        self.press(Keys.TAB, Keys.TAB)
        self.assertEqual(self.focused(), f"{RELAY_ID:#x}")
        self.press(Keys.ARROW_DOWN)
        self.assertEqual(self.focused(), f"{ONE:#x}")
        self.press(Keys.ENTER)
        self.browser.wait_for_text("#details-title", "gamesvr")
        self.press(Keys.ESCAPE)
        self.assertFalse(self.browser.one("#details").is_displayed())
        self.assertEqual(self.focused(), f"{ONE:#x}")

    def press(self, *keys):
        for key in keys:
            ActionChains(self.browser.driver).send_keys(key).perform()

    def focused(self):
        return self.browser.run("return document.activeElement.dataset.node || document.activeElement.id")

    def test_sorts_and_filters(self):
        bus = self.open_scene()
        bus.start_node(RELAY_ID + 4, "loadgen", traffic=(f"{ONE:#x}", 200, 100))
        until(lambda: self.rate_of(ONE) > 100, "messages flow")
        self.click_column("Messages")
        until(lambda: self.first_ids()[0] in (f"{ONE:#x}", f"{RELAY_ID + 4:#x}"), "the busiest come first")
        self.click_column("State")
        until(lambda: self.first_ids()[0] == f"{TWO:#x}", "the dead one comes first")
        self.click_column("State")
        until(lambda: self.first_ids()[-1] == f"{TWO:#x}", "the dead one comes last")
        self.browser.one("#filter").send_keys("MATCH")
        until(lambda: self.first_ids() == [f"{TWO:#x}"], "one program")
        self.browser.one("#filter").clear()
        self.browser.one("#filter").send_keys("nothing of that name")
        self.browser.wait_for_text("#more-rows", "No node matches the filter.")

    def click_column(self, name):
        next(button for button in self.browser.all("#columns button") if button.text.startswith(name)).click()

    def first_ids(self):
        return self.browser.run("return [...document.querySelectorAll('#rows tr')].map(row => row.dataset.node)")

    def test_details_say_all_of_a_node(self):
        bus = self.open_bus()
        bus.start_node(ONE, "gamesvr")
        bus.start_node(TWO, "loadgen", traffic=(f"{ONE:#x}", 200, 100))
        until(lambda: self.rate_of(ONE) > 100, "messages flow")
        self.browser.one(f'#graph .node[data-node="{RELAY_ID:#x}"]').click()
        for text in (bus.relay_address, f"{ONE:#x} child", "shared memory", "Links that were established."):
            self.browser.wait_for_text("#details", text)
        self.browser.one("#details-peers button").click()
        self.browser.wait_for_text("#details-title", "gamesvr")
        self.browser.wait_for_text("#details", "Messages handed to the program.")

    def test_says_why_a_link_was_lost(self):
        bus = self.open_bus()
        middle, leaf = RELAY_ID + 0x100, RELAY_ID + 0x101
        parent = bus.start_node(middle, "zonesvr", children=f"{middle:#x}/56")
        self.browser.wait_for_life(middle, "live")
        bus.start_node(leaf, "gamesvr", parent=bus.address_of(middle))
        self.browser.wait_for_text(f'#rows tr[data-node="{leaf:#x}"]', "1 of 1")
        bus.kill(parent)
        why = "the other side closed the connection or died"
        self.browser.wait_for_text("#trouble", f"{leaf:#x} lost its link to {middle:#x}: {why}")
        self.browser.one(f'#graph .node[data-node="{leaf:#x}"]').click()
        self.browser.wait_for_text("#details-peers", why)


WIDER_THAN_THE_PAGE = """
return [...document.body.querySelectorAll('*')].filter(one => !one.closest('.for-readers, svg')).filter(one => {
  const place = one.getBoundingClientRect();
  return place.width && (place.right > innerWidth + 0.5 || place.left < -0.5);
}).map(one => one.outerHTML.slice(0, 200));
"""

# Of each text its contrast with what is behind it, as WCAG 2 defines it. 4.5 is its level AA.
LOW_CONTRAST = """
const painter = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
function paint(...colours) {
  painter.clearRect(0, 0, 1, 1);
  for (const colour of colours) {
    painter.fillStyle = colour;
    painter.fillRect(0, 0, 1, 1);
  }
  return [...painter.getImageData(0, 0, 1, 1).data].slice(0, 3);
}
function luminance(colour) {
  const linear = part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  const [r, g, b] = colour.map(part => linear(part / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function grounds(element) {
  const all = [];
  for (let one = element; one; one = one.parentElement) {
    all.unshift(getComputedStyle(one).backgroundColor);
    const box = one.querySelector(':scope > .box');
    if (box && getComputedStyle(box).fill !== 'none') all.unshift(getComputedStyle(box).fill);
  }
  return all;
}
// A box of the graph lies above the page, and the page below it.
function ground_of(element) {
  const box = element.closest('.node')?.querySelector('.box');
  const fill = box && getComputedStyle(box).fill;
  const page = grounds(element.closest('svg') || element);
  return paint(...page, ...(fill && fill !== 'none' ? [fill] : []));
}
const found = [];
for (const element of document.body.querySelectorAll('*')) {
  const own = [...element.childNodes].some(child => child.nodeType === 3 && child.data.trim());
  const unseen = ['SCRIPT', 'TITLE', 'OPTION', 'title'].includes(element.tagName);
  if (!own || unseen || !element.getClientRects().length) continue;
  const style = getComputedStyle(element);
  const ink = element instanceof SVGElement ? style.fill : style.color;
  const [a, b] = [luminance(paint(ink)), luminance(ground_of(element))];
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (contrast < 4.5) found.push([element.textContent.slice(0, 40), contrast, ink]);
}
return found;
"""


if __name__ == "__main__":
    unittest.main(verbosity=2)
