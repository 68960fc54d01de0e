"""An installed tree is all that a program of one's own needs: find_package(entrain), link, run."""
import pathlib
import subprocess
import tempfile
import unittest

from support import BUILD

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/installed"


class Installed(unittest.TestCase):
    def test_readme_shows_the_project(self):
        lines = (EXAMPLE / "CMakeLists.txt").read_text().replace("../train.cc", "train.cc").splitlines(True)
        project = "".join(line for line in lines if not line.startswith("#"))
        self.assertIn("```cmake\n" + project + "```\n", (EXAMPLE.parents[1] / "README.md").read_text())

    def call(self, *args):
        done = subprocess.run(list(map(str, args)), capture_output=True, text=True, timeout=500)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_a_project_finds_links_and_runs_it(self):
        with tempfile.TemporaryDirectory() as folder:
            prefix, app = pathlib.Path(folder, "prefix"), pathlib.Path(folder, "app")
            self.call("cmake", "--install", BUILD, "--prefix", prefix)
            for file in prefix.rglob("*.cmake"):  # nothing in it may lead back to the build or the sources
                self.assertNotIn(str(BUILD.parent) + "/", file.read_text(), file)
            self.call("cmake", "-S", EXAMPLE, "-B", app, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release")
            self.call("cmake", "--build", app)
            self.assertIn("loss", self.call(prefix / "bin/entrain", "launch", "-n", 2, "--", app / "app"))


if __name__ == "__main__":
    unittest.main()
