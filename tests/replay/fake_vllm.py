"""Stands in for vLLM's command line where only its life as a process matters: starts a child, answers /health.

Environment: FAKE_VLLM is one of `ok`, `die` (a traceback before it answers), `hang` (never answers), `stubborn` (it and
its child ignore SIGTERM), `orphan` (its child makes a process group of its own and ignores SIGTERM).
"""

import http.server
import os
import signal
import subprocess
import sys
import time

MODE = os.environ.get("FAKE_VLLM", "ok")
CHILD = (
    "import os, signal, time\n"
    "if {own_group}: os.setpgid(0, 0)\n"
    "if {ignore}: signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print('engine', os.getpid(), flush=True); time.sleep(600)\n"
)


class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):  # noqa: N802, the name is the library's
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def main():
    ignore = MODE in ("stubborn", "orphan")
    if MODE == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", CHILD.format(own_group=MODE == "orphan", ignore=ignore)])
    if MODE != "stubborn":
        # vLLM asks its engine to end; the engine of `orphan` does not listen.
        signal.signal(signal.SIGTERM, lambda *_: (child.terminate(), os._exit(0)))
    print("arguments", sys.argv[1:], "threads", os.environ.get("OMP_NUM_THREADS"), flush=True)
    print("keys", sorted(name for name in os.environ if "API_KEY" in name), flush=True)
    if MODE == "die":
        child.kill()
        print("(APIServer pid=1) INFO 11-30 08:40:08 [api.py:1] loading", flush=True)
        print("(APIServer pid=1) ERROR 11-30 08:40:08 [core.py:9] ValueError: no such dtype: blue", flush=True)
        sys.exit(1)
    if MODE == "hang":
        time.sleep(600)
    port = int(sys.argv[sys.argv.index("--port") + 1])
    http.server.HTTPServer(("127.0.0.1", port), Health).serve_forever()


main()
