# SPDX-License-Identifier: BSD-2-Clause
"""Alertmanager of Debian, and servers that behave as a bad one, for the tests of escapement-alert."""
import base64
import http.server
import json
import os
import ssl
import subprocess
import threading
import time
import urllib.request

import labtest

ALERTMANAGER = os.path.join(labtest.CACHE, "prometheus-alertmanager", "usr", "bin", "prometheus-alertmanager")
ALERT = os.path.join(labtest.BUILD, "escapement-alert")


class Server:
    """HTTP on loopback: what was posted, and how it is replied to. `status` None: never."""

    def __init__(self, status=200, body=b"{}", user=None, certificate=None):
        self.posts, self.status, self.body, self.user, self.denied = [], status, body, user, 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                outer.take(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http{'s' if certificate else ''}://127.0.0.1:{self.server.server_port}"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, request):
        text = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        wanted = self.user and "Basic " + base64.b64encode(self.user.encode()).decode()
        if wanted and request.headers.get("Authorization") != wanted:
            self.denied += 1
            status, body = 401, b"no"
        else:
            self.posts.append((time.monotonic(), json.loads(text)))
            status, body = self.status, self.body
        if status is None:
            time.sleep(60)
            return
        try:
            request.send_response(status)
            request.end_headers()
            request.wfile.write(body)
        except OSError:
            pass

    def states(self):
        """[(alertname, fault, "firing" or "resolved")] in the order in which they changed, of all posts."""
        seen, out = {}, []
        for _, alerts in self.posts:
            for alert in alerts:
                key = tuple(sorted(alert["labels"].items()))
                state = (alert["startsAt"], "resolved" if alert["endsAt"] < now_text(-1) else "firing")
                if seen.get(key) != state:
                    seen[key] = state
                    out.append((alert["labels"]["alertname"], alert["labels"].get("fault"), state[1]))
        return out

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def now_text(seconds=0):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + seconds))


def shipped_config(hook_url):
    """deploy/alertmanager.yml with a webhook as receiver, and groups that are sent again after 10 s, not 5 minutes."""
    with open(os.path.join(labtest.TOP, "deploy", "alertmanager.yml"), encoding="ascii") as text:
        config = text.read()
    before, rest = config.split("receivers:\n")
    if "group_interval: 5m" not in before or rest != "  - name: default\n":
        raise RuntimeError("deploy/alertmanager.yml is not as this test knows it")
    return (before.replace("group_interval: 5m", "group_interval: 10s") + "receivers:\n  - name: default\n"
            f"    webhook_configs: [{{url: {hook_url}, send_resolved: true}}]\n")


def alertmanager(folder, port, hook_url, text=None):
    """The command of Debian's, with the configuration @text, or with a webhook as receiver and shorter waits than its
    own. It is unpacked, not installed, and reads its templates from /usr/share: in a mount namespace they are there."""
    config = os.path.join(folder, "alertmanager.yml")
    with open(config, "w", encoding="ascii") as out:
        out.write(text or f"""route:
  receiver: hook
  group_by: [alertname, fault]
  group_wait: 500ms
  group_interval: 1s
  repeat_interval: 4h
receivers:
  - name: hook
    webhook_configs:
      - url: {hook_url}
        send_resolved: true
""")
    share = os.path.join(labtest.CACHE, "prometheus-alertmanager", "usr", "share")
    overlay = f"mount -t overlay overlay -o lowerdir={share}:/usr/share /usr/share && exec \"$@\""
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", overlay, "sh", ALERTMANAGER, f"--config.file={config}", f"--storage.path={folder}/data", "--cluster.listen-address=",
            f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]


def fake_cli(folder, config, events=()):
    """An `escapement` that prints @config, the events of a file, and each that is appended to it: what the daemon
    would say. Returns (program, file)."""
    program, log = os.path.join(folder, "escapement"), os.path.join(folder, "events.jsonl")
    with open(os.path.join(folder, "config.json"), "w", encoding="ascii") as out:
        json.dump({"alerts": config}, out)
    with open(log, "w", encoding="ascii") as out:
        out.writelines(json.dumps(event) + "\n" for event in events)
    with open(program, "w", encoding="ascii") as out:
        out.write(f"""#!/bin/sh
case $* in
*config*) cat {folder}/config.json ;;
*) [ -e {folder}/gone ] && exit 3; exec tail -n +1 -F {log} 2>/dev/null ;;
esac
""")
    os.chmod(program, 0o755)
    return program, log


def event(number, kind, start=1, host="h1", severity="warning", fault="host:h2/backend", **more):
    return dict({"version": 1, "id": f"{host}:{start:x}:{number}", "host": host, "time_ns": time.time_ns(),
                 "kind": kind, "severity": severity, "subject": "h2", "about": "peer", "fault": fault}, **more)


def append(log, *events):
    with open(log, "a", encoding="ascii") as out:
        out.writelines(json.dumps(one) + "\n" for one in events)


def run(folder, program, **keywords):
    """escapement-alert, with its state in @folder."""
    state = os.path.join(folder, "state")
    os.makedirs(state, exist_ok=True)
    return subprocess.Popen([ALERT, "--state", state, "--escapement", program], stdin=subprocess.DEVNULL,
                            stderr=open(os.path.join(folder, "log"), "ab"), **keywords)


def ready(url):
    try:
        with urllib.request.urlopen(url + "/-/ready", timeout=2) as reply:
            return reply.status == 200
    except OSError:
        return False
