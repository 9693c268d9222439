"""Makes the pictures of the status page in doc/picture: a small network of real processes, of which one is killed and
one is stopped."""

import pathlib
import time

from browser import Browser
from bus import RELAY_ID, Bus
from waiting import until

PICTURES = pathlib.Path(__file__).parents[2] / "doc/picture"
SECONDS_OF_RATES = 75


def start_scene(bus):
    """Two zones below the relay; the game servers send to their zone, the load generator to the chat server."""
    zones = [RELAY_ID + 0x100, RELAY_ID + 0x200]
    chat, record, store = RELAY_ID + 1, RELAY_ID + 2, RELAY_ID + 3
    for zone in zones:
        bus.start_node(zone, "zonesvr", children=f"{zone:#x}/56")
    bus.start_node(chat, "chatsvr")
    bus.start_node(store, "dbproxy", reports=False)
    until(bus.answers, "the relay answers")
    games = [
        bus.start_node(zone + i, "gamesvr", parent=bus.address_of(zone), traffic=(f"{zone:#x}", 90 * i * i, 64 * i))
        for zone in zones
        for i in (1, 2, 3)
    ]
    slow = bus.start_node(record, "recordsvr")
    bus.start_node(RELAY_ID + 4, "matchsvr", traffic=(f"{record:#x}", 9000, 1000))
    bus.start_node(RELAY_ID + 5, "loginsvr", traffic=(f"{chat:#x}", 400, 200))
    return games, slow


def take(browser, name):
    browser.run("document.activeElement.blur()")
    time.sleep(0.5)  # how long movements on the page take: a picture shows where they end
    browser.driver.save_screenshot(str(PICTURES / f"status_page_{name}.png"))


def take_all(browser, bus):
    browser.show_as(scheme="light")
    take(browser, "light")
    browser.show_as(scheme="dark")
    take(browser, "dark")
    browser.show_as(360, 740, "light")
    take(browser, "phone")
    browser.one(f'#graph .node[data-node="{RELAY_ID + 0x101:#x}"]').click()
    browser.show_as(360, 740, "dark")
    take(browser, "phone_details")


def main():
    browser, bus = Browser(), Bus()
    try:
        browser.show_as()
        browser.open(bus.url)
        games, slow = start_scene(bus)
        time.sleep(SECONDS_OF_RATES)  # the curves of the picture show that time
        bus.kill(games[-1])
        bus.stop(slow)
        browser.wait_for_life(RELAY_ID + 2, "silent", seconds=40)
        take_all(browser, bus)
    finally:
        bus.close()
        browser.close()


if __name__ == "__main__":
    main()
