"""The status page in a headless Chromium."""

import os

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.chrome.service import Service

from waiting import until

DRIVER = os.environ.get("PAGE_DRIVER", "/usr/bin/chromedriver")

# In one step each: the page may change between two.
LIFE_OF_BOX = "return document.querySelector(`#graph .node[data-node='${arguments[0]}']`)?.dataset.life ?? null"
SHOWN_TEXT = """
const shown = [...document.querySelectorAll(arguments[0])].filter(one => one.getClientRects().length);
return shown.map(one => one.innerText ?? one.textContent).join('\\n');
"""


def open_chromium():
    options = webdriver.ChromeOptions()
    # As root, and in a container, Chromium has no sandbox of its own.
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service(DRIVER), options=options)


class Browser:
    def __init__(self):
        self.driver = open_chromium()
        self.run = self.driver.execute_script

    def close(self):
        self.driver.quit()

    def show_as(self, width=1280, height=800, scheme="light"):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})

    def open(self, url):
        self.driver.get(url)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector):
        """Of what is there and shown, else an empty one."""
        return self.run(SHOWN_TEXT, selector)

    def life(self, number):
        """What the box of a node in the graph says of it; None without a box."""
        return self.run(LIFE_OF_BOX, f"{number:#x}")

    def wait_for_life(self, number, life, seconds=10.0):
        until(lambda: self.life(number) == life, f"{number:#x} is {life}", seconds)

    def wait_for_text(self, selector, text, seconds=10.0):
        until(lambda: text in self.text(selector), lambda: f'"{text}" in {selector}: {self.text(selector)}', seconds)

    def errors(self):
        """What the console says since this was asked last."""
        return [line["message"] for line in self.driver.get_log("browser") if line["level"] in ("SEVERE", "WARNING")]
