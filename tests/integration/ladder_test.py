"""scripts/check_ladder refuses what it says it refuses, in small made-up trees."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_ladder"


class Ladder(unittest.TestCase):
    def check(self, files):
        """The exit code and what is said of a tree {path under src/entrain: text}."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder, "src/entrain", name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            done = subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    def refused(self, files, *words):
        code, said = self.check(files)
        self.assertEqual(code, 1, said)
        self.assertEqual(len(said.splitlines()), 1, said)
        for word in words:
            self.assertIn(word, said)

    def test_this_tree_holds(self):
        done = subprocess.run([sys.executable, SCRIPT, SCRIPT.parents[1]], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_lower_folders_may_be_included(self):
        self.assertEqual(self.check({"base/a.h": "", "transport/tcp/b.cc": '#include "entrain/base/a.h"'})[0], 0)

    def test_no_tree_is_an_error(self):
        self.assertEqual(self.check({})[0], 1)

    def test_higher_folders_and_siblings(self):
        self.refused({"base/a.h": '#include "entrain/graph/g.h"'}, "base/a.h:1", "graph", "nothing")
        self.refused({"transport/tcp/a.cc": '#include "entrain/transport/mpi/m.h"'}, "transport/tcp may not include transport/mpi")
        self.refused({"dataset/a.cc": '#include "entrain/strategy/builders/b.h"'}, "strategy/builders")

    def test_tests_may_include_more(self):
        builders, support = '#include "entrain/strategy/builders/b.h"\n', '#include "support/ranks.h"\n'
        self.assertEqual(self.check({"dataset/a_test.cc": builders + support})[0], 0)
        self.refused({"dataset/a.cc": support}, "support/ranks.h")
        self.refused({"cluster/a_test.cc": builders}, "strategy/builders")

    def test_a_folder_without_a_line(self):
        self.refused({"attic/a.cc": ""}, "attic", "not in the table")
        self.refused({"pipeline/a.cc": ""}, "'pipeline'", "not in the table")

    def test_torch(self):
        self.refused({"pipeline/plan/a.cc": "#include <torch/torch.h>"}, "pipeline/plan knows no tensors")
        self.assertEqual(self.check({"pipeline/run/a.cc": "#include <torch/torch.h>"})[0], 0)
        self.refused({"graph/capture.h": "#include <ATen/ATen.h>", "plan/a.cc": '#include "entrain/graph/capture.h"'},
                     "plan/a.cc includes graph/capture.h includes ATen/ATen.h")

    def test_size(self):
        self.assertEqual(self.check({f"base/{i}.cc": "" for i in range(40)} | {"base/a_test.cc": ""})[0], 0)
        self.refused({f"base/{i}.cc": "" for i in range(41)}, "base: 41 source files")

    def test_flags(self):
        self.refused({"models/a.cc": 'bad_input("--model {}: no such file");'}, "models/a.cc:1", "flag")
        self.assertEqual(self.check({"models/a_test.cc": 'run("--model");', "models/b.cc": "// --model\n--i;"})[0], 0)
        self.refused({"transport/mpi/progress.cc": '"or srun --mpi=pmix"'}, "flag")

    def test_circles(self):
        """The table has none, so they are looked for in a graph."""
        scope = {"__name__": "check_ladder"}
        exec(compile(SCRIPT.read_text(), SCRIPT, "exec"), scope)  # it has no .py to import
        self.assertIsNone(scope["find_circle"]({"a": {"b", "c"}, "b": {"c"}, "c": set()}))
        self.assertEqual(scope["find_circle"]({"a": {"b"}, "b": {"c"}, "c": {"b"}}), ["b", "c", "b"])


if __name__ == "__main__":
    unittest.main()
