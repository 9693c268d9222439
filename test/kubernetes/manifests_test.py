"""What the manifests of packaging/kubernetes say, against the schemas of Kubernetes and the real relay.

Environment: ATBUS, the command. Needs PyYAML and kubernetes-validate."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest
import urllib.request
from pathlib import Path

import kubernetes_validate
import yaml

MANIFESTS = Path(__file__).resolve().parents[2] / "packaging" / "kubernetes"
ATBUS = os.environ["ATBUS"]


def documents(name):
    return [one for one in yaml.safe_load_all((MANIFESTS / name).read_text()) if one]


def find(name, kind, called):
    return next(one for one in documents(name)
                if one["kind"] == kind and one["metadata"]["name"] == called)


def pods():
    """Each workload's name and the spec of its pods."""
    for name in ("relay.yaml", "node.yaml"):
        for one in documents(name):
            if one["kind"] in ("StatefulSet", "DaemonSet"):
                yield one["metadata"]["name"], one["spec"]["template"]["spec"]


class Manifests(unittest.TestCase):
    def test_each_is_of_its_schema(self):
        seen = 0
        for name in ("relay.yaml", "node.yaml"):
            for one in documents(name):
                for version in ("1.25", "1.37"):
                    kubernetes_validate.validate(one, version, strict=True)
                seen += 1
        self.assertEqual(seen, 5)

    def test_each_mount_is_of_a_volume_and_each_volume_is_mounted(self):
        for name, spec in pods():
            containers = spec["containers"] + spec.get("initContainers", [])
            mounted = {mount["name"] for one in containers for mount in one["volumeMounts"]}
            self.assertEqual(mounted, {one["name"] for one in spec["volumes"]}, name)

    def test_no_container_has_more_rights_than_it_needs(self):
        for name, spec in pods():
            self.assertFalse(spec["automountServiceAccountToken"], name)
            for one in spec["containers"]:
                rights = {**spec["securityContext"], **one["securityContext"]}
                self.assertEqual(rights["runAsUser"], 990, name)
                self.assertTrue(rights["runAsNonRoot"], name)
                self.assertTrue(rights["readOnlyRootFilesystem"], name)
                self.assertFalse(rights["allowPrivilegeEscalation"], name)
                self.assertEqual(rights["capabilities"], {"drop": ["ALL"]}, name)

    def test_there_is_more_time_to_end_than_the_relay_takes(self):
        for name, spec in pods():
            self.assertGreater(spec["terminationGracePeriodSeconds"], 10 + 5, name)


class Relays(unittest.TestCase):
    """What the containers would run, run here: in a folder in place of theirs."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="atbus-kubernetes."))
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("templates", "config", "sockets", "token"):
            (self.folder / name).mkdir()
        for name, text in find("relay.yaml", "ConfigMap", "atbus-relay")["data"].items():
            (self.folder / "templates" / name).write_text(self.moved(text))
        token = self.folder / "token" / "token"
        token.write_text("0123456789abcdef" * 4)
        token.chmod(0o440)
        self.processes = []
        self.addCleanup(self.end_all)

    def moved(self, text):
        """Its paths, ports and names, as they are here."""
        for there, here in (("/etc/atbus/token", "token"), ("/etc/atbus/config", "config"), ("/run/atbus", "sockets")):
            text = text.replace(there, str(self.folder / here))
        return text

    def prepare(self, host):
        relay = find("relay.yaml", "DaemonSet", "atbus-relay")["spec"]["template"]["spec"]
        command = relay["initContainers"][0]["command"]
        self.assertEqual(command, ["/bin/sh", "/etc/atbus/templates/prepare.sh"])
        here = {"HOST_IP": host, "TEMPLATES": self.folder / "templates", "CONFIG": self.folder / "config",
                "SOCKETS": self.folder / "sockets", "PATH": os.environ["PATH"]}
        self.assertLessEqual({one["name"] for one in relay["initContainers"][0]["env"]}, set(here))
        return subprocess.run(["sh", self.folder / "templates" / "prepare.sh"], env=here, capture_output=True, text=True)

    def check(self, config):
        run = subprocess.run([ATBUS, "relay", "--config", config, "--check"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)

    def start(self, command, environment):
        log = self.folder / f"log{len(self.processes)}"
        with log.open("w") as to:
            self.processes.append(subprocess.Popen(command, stderr=to, env=environment))
        return log

    def end_all(self):
        for one in self.processes:
            one.send_signal(signal.SIGTERM)
        for one in self.processes:
            one.wait(30)

    def wait_for(self, what, why):
        for _ in range(200):
            if found := what():
                return found
            subprocess.run(["sleep", "0.05"], check=True)
        self.fail(why())

    @unittest.skipIf(os.geteuid() != 0, "gives a folder to another user")
    def test_the_hosts_relay_has_the_ids_of_its_host(self):
        done = self.prepare("10.1.2.255")
        self.assertEqual(done.returncode, 0, done.stderr)
        written = (self.folder / "config" / "relay.toml").read_text()
        self.assertIn('id = "0x010a0102ff000000"', written)
        self.check(self.folder / "config" / "relay.toml")
        self.check(self.folder / "templates" / "root.toml")
        self.assertEqual((self.folder / "sockets").stat().st_uid, 990)

    def test_a_host_with_another_kind_of_address_is_told_so(self):
        done = self.prepare("fd00::7")
        self.assertEqual(done.returncode, 1)
        self.assertIn('"fd00::7"', done.stderr)

    def test_probes_ask_for_what_the_relay_answers(self):
        for name, spec in pods():
            for one in spec["containers"]:
                ports = {port["name"]: port["containerPort"] for port in one.get("ports", [])}
                for probe in ("readinessProbe", "livenessProbe"):
                    if probe in one:
                        self.assertEqual(ports[one[probe]["httpGet"]["port"]], 9464, name)
        for name in ("relay.toml", "root.toml"):
            self.assertIn('listen = "0.0.0.0:9464"', (self.folder / "templates" / name).read_text())

    @unittest.skipIf(os.geteuid() != 0, "gives a folder to another user")
    def test_a_program_is_linked_with_its_relay_and_that_with_the_root(self):
        self.assertEqual(self.prepare("127.0.0.1").returncode, 0)
        # All in one place, so each has a port of its own.
        for file, port in (("templates/root.toml", 25101), ("config/relay.toml", 25102)):
            path = self.folder / file
            text = path.read_text().replace("0.0.0.0:5000", f"127.0.0.1:{port}").replace("0.0.0.0:9464", f"127.0.0.1:{port + 10}")
            path.write_text(text.replace("atbus-root:5000", "localhost:25101"))
        quiet = {"PATH": os.environ["PATH"]}
        root = self.start([ATBUS, "relay", "--config", self.folder / "templates/root.toml"], quiet)
        relay = self.start([ATBUS, "relay", "--config", self.folder / "config/relay.toml"], quiet)
        (self.folder / "program").mkdir()
        chat = find("node.yaml", "StatefulSet", "chat")["spec"]["template"]["spec"]["containers"][0]
        shell, flag, script = chat["command"]
        script = self.moved(script).replace("/usr/bin/atbus", ATBUS)
        program = self.start([shell, flag, script],
                             {**quiet, "HOST_IP": "127.0.0.1", "POD": "chat-6", "CONFIG": str(self.folder / "program")})

        def peers():
            try:
                with urllib.request.urlopen("http://127.0.0.1:25112/readyz", timeout=1) as answer:
                    if answer.status != 200:
                        return None
            except OSError:
                return None
            run = subprocess.run([ATBUS, "show", "0x017f000001000000", "--json"], capture_output=True, text=True)
            found = {int(peer["id"]): peer for peer in json.loads(run.stdout)[0]["peers"]} if run.returncode == 0 else {}
            return found if {0x0100000000000000, 0x017f000001010007} <= set(found) else None

        self.wait_for(peers, lambda: "\n".join(log.read_text() for log in (root, relay, program)))


if __name__ == "__main__":
    unittest.main()
