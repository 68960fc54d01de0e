"""On a terminal: progress lines keep to its width, no text runs into them, Ctrl-C shows what there is."""
import fcntl
import json
import os
import pathlib
import pty
import re
import signal
import struct
import tempfile
import termios
import time
import unittest

from support import ENTRAIN, result, run, start

CLEAR = "\r\033[K"


def in_terminal(*args, columns=80, env=None, until=None):
    """Runs `entrain ARGS` in a terminal: (exit code, all that it shows). Ctrl-C once `until` has been shown."""
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            os.environ.update({"TERM": "xterm-256color", **(env or {})})
            fcntl.ioctl(2, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            os.execv(ENTRAIN, [str(ENTRAIN), *map(str, args)])
        finally:
            os._exit(127)  # not built: this is no place to go on with the tests
    shown = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the other side is gone
            break
        if not part:
            break
        shown += part
        if until is not None and until in shown:
            os.write(terminal, b"\x03")
            until = None
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode().replace("\r\n", "\n")


def updates(shown):
    """Each thing that a progress line has shown."""
    return [part.split("\n")[0] for part in shown.split(CLEAR)[1:]]


class Terminal(unittest.TestCase):
    def test_a_progress_line_keeps_to_the_width(self):
        for columns in (80, 40, 20):
            with self.subTest(columns=columns):
                code, shown = in_terminal("train", "--model", "cnn7-small", "--cluster", "local:2", "--batch-size", 2,
                                          "--steps", 60, columns=columns)
                self.assertEqual(code, 0, shown)
                lines = [line for line in updates(shown) if line.startswith("step ")]
                self.assertTrue(lines, shown)
                for line in lines:
                    self.assertLess(len(line), columns, line)
                self.assertRegex(lines[-1], r"^step 60/60 ")
                self.assertNotIn("ETA 0", shown)

    def test_other_text_does_not_run_into_it(self):
        code, shown = in_terminal("train", "--model", "cnn7-small", "--cluster", "local:2", "--batch-size", 2, "--steps", 40,
                                  "--switch", "5=ps", "--switch", "20=ddp")
        self.assertEqual(code, 0, shown)
        for line in re.split(r"\n|\r\033\[K", shown):
            self.assertNotRegex(line, r"loss [\d.]+.*(info|strategy)", "text behind a progress line")
        self.assertIn("strategy ps", shown)

    def test_results_begin_on_a_line_of_their_own(self):
        with tempfile.TemporaryDirectory() as folder:
            for args, result_line in (
                    (["bench", "optimizers", "--model", "cnn7-small", "--cluster", "local:2", "--rules", "local-sgd:period=2",
                      "--seeds", 1, "--train=--steps=4", "--out", f"{folder}/b"], "cnn7-small on local:2"),
                    (["dataset", "collect", "--model", "cnn7-small", "--cluster", "local:2", "--batch-size", 2, "--trials", 2,
                      "--steps", 1, "--most-steps", 1, "--out", f"{folder}/c.jsonl"], "cnn7-small@local:2#2: 2 trials"),
                    (["demo", "--model", "cnn7-small", "--cluster", "local:2", "--strategy", "ps"], "strategy  "),
                    (["probe", "--cluster", "local:2", "--out", f"{folder}/p.yml"], "written to")):
                with self.subTest(args=args):
                    code, shown = in_terminal(*args)
                    self.assertEqual(code, 0, shown)
                    self.assertIn("\n" + result_line, shown)

    def test_no_color_is_obeyed(self):
        args = ("train", "--model", "cnn7-small", "--cluster", "local:2", "--batch-size", 2, "--steps", 6, "--switch", "2=ps")
        self.assertRegex(in_terminal(*args)[1], r"\033\[\d*m")
        self.assertNotRegex(in_terminal(*args, env={"NO_COLOR": "1"})[1], r"\033\[[\d;]*m")

    def test_ctrl_c_in_a_demo_shows_what_was_measured(self):
        # The line is drawn ten times a second, so the second strategy must take longer than that to be seen on it.
        code, shown = in_terminal("demo", "--model", "cnn7-small", "--cluster", "local:2", "--steps", 2000, "--strategy", "ddp",
                                  "--strategy", "ps", "--strategy", "allreduce", until=b"ps")
        self.assertEqual(code, 130, shown)
        self.assertIn("Interrupted", shown)
        self.assertRegex(shown, r"\nddp +\d")
        self.assertIn("vs ddp", shown)

    def test_ctrl_c_in_a_tune_writes_what_was_found(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder, "t")
            code, shown = in_terminal("tune", "--model", "cnn7-small", "--cluster", "local:2", "--batch-size", 2, "--space",
                                      "sync", "--trials", 500, "--steps", 1, "--most-steps", 1, "--out", out, until=b"hit rate")
            self.assertEqual(code, 130, shown)
            self.assertIn("--resume", shown)
            self.assertTrue(json.loads((out / "result.json").read_text())["interrupted"])
            self.assertTrue((out / "best.json").exists())


class Resumed(unittest.TestCase):
    def test_the_rate_is_that_of_this_run(self):
        """The 30 steps of the run before took no time here."""
        with tempfile.TemporaryDirectory() as folder:
            args = ("train", "--model", "cnn7-small", "--batch-size", 1, "--out", folder)
            result(run(*args, "--steps", 30, "--json"))
            code, shown = in_terminal(*args, "--steps", 60, "--resume", folder)
            self.assertEqual(code, 0, shown)
            first = next(line for line in updates(shown) if line.startswith("step 31/60"))
            self.assertNotIn("it/s", first)
            self.assertNotIn("ETA", first)


class Pipe(unittest.TestCase):
    def test_no_control_sequences_go_into_a_pipe(self):
        done = run("train", "--model", "cnn7-small", "--cluster", "local:2", "--batch-size", 2, "--steps", 10, "--switch",
                   "2=ps")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("\033", done.stdout + done.stderr)
        self.assertNotIn("\r", done.stdout + done.stderr)

    def test_a_demo_that_is_told_to_end_prints_json(self):
        job = start("demo", "--model", "cnn7-small", "--cluster", "local:2", "--steps", 2000, "--json")
        time.sleep(3)
        job.send_signal(signal.SIGINT)
        out, errors = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 130, errors)
        self.assertTrue(json.loads(out)["interrupted"])


if __name__ == "__main__":
    unittest.main()
