"""An installed tree is all that a program of one's own needs: find_package(entrain), link, run."""
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from support import BUILD, mpi_reason, mpirun

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/installed"


class Installed(unittest.TestCase):
    def test_the_page_shows_the_project(self):
        lines = (EXAMPLE / "CMakeLists.txt").read_text().replace("../train.cc", "train.cc").splitlines(True)
        project = "".join(line for line in lines if not line.startswith("#"))
        self.assertIn("```cmake\n" + project + "```\n", (EXAMPLE.parents[1] / "docs/cpp.md").read_text())

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
            self.assertIn(".SS entrain train", (prefix / "share/man/man1/entrain.1").read_text())
            completion = prefix / "share/bash-completion/completions/entrain"
            self.assertIn("--model", self.call("bash", "-c", f"""source {completion}
                COMP_WORDS=(entrain train --mo) COMP_CWORD=2; _entrain; echo ${{COMPREPLY[@]}}"""))
            for program in (app / "app", prefix / "bin/entrain"):
                self.assertNotIn("libmpi", self.call("ldd", program), "Open MPI is loaded by MPI jobs only")
            if not mpi_reason():
                done = mpirun(2, app / "app")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("over mpi", done.stderr, "the plugin of the prefix was found")

    @unittest.skipIf(shutil.which("dpkg-shlibdeps") is None, "no dpkg-shlibdeps: scripts/setup --package installs it")
    def test_debian_packages(self):
        with tempfile.TemporaryDirectory() as folder:
            self.call("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", folder)
            packages = {file.name.split("_")[0]: file for file in pathlib.Path(folder).glob("*.deb")}
            self.assertEqual(set(packages), {"entrain"} if mpi_reason() else {"entrain", "entrain-mpi"})
            files = self.call("dpkg-deb", "--contents", packages["entrain"])
            for file in ("bin/entrain\n", "lib/libentrain_train.a", "lib/cmake/entrain/entrain-config.cmake", "include/entrain/entrain.h",
                         "share/man/man1/entrain.1", "share/bash-completion/completions/entrain", "share/doc/entrain/copyright"):
                self.assertIn("./usr/" + file, files)
            needs = self.call("dpkg-deb", "--field", packages["entrain"], "Depends")
            self.assertIn("libopenblas0-pthread", needs)
            self.assertNotIn("openmpi", needs)
            if not mpi_reason():
                self.assertIn("openmpi", self.call("dpkg-deb", "--field", packages["entrain-mpi"], "Depends"))
                self.assertIn("libentrain_mpi.so", self.call("dpkg-deb", "--contents", packages["entrain-mpi"]))


if __name__ == "__main__":
    unittest.main()
