"""What a reader copies from the README and the pages of docs/ works: as it stands, in order, in a folder per page."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from support import BUILD, run

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
PAGES = {str(page.relative_to(ROOT)): page.read_text()
         for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))}
# Set by entrain itself for its own processes.
INTERNAL = {"ENTRAIN_CLUSTER_TEXT", "ENTRAIN_LAB_INSIDE", "ENTRAIN_SHAPE_GBIT", "ENTRAIN_STARTED"}


def doc_commands(*args):
    return subprocess.run([ROOT / "tests/doc_commands", *args], capture_output=True, text=True, timeout=580,
                          env={**os.environ, "ENTRAIN_BUILD": str(BUILD)})


def anchors_of(text):
    """What GitHub makes of the headings."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


class Docs(unittest.TestCase):
    def test_commands_that_announce_no_time_run_as_they_stand(self):
        done = doc_commands()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertGreater(done.stdout.count("\nok "), 20, done.stdout)

    def test_the_table_of_verbs_is_complete(self):
        help_text = run("--help").stdout
        verbs = re.findall(r"^  ([a-z-]+) ", help_text.split("Subcommands:")[1], re.MULTILINE)
        self.assertGreater(len(verbs), 10, help_text)
        table = PAGES["docs/program.md"].split("\n## Verbs\n")[1].split("\n\n")[0]
        for verb in verbs:
            self.assertIn(f"`{verb}", table)

    def test_the_table_of_environment_variables_is_complete(self):
        sources = [path for folder in ("src", "apps") for path in (ROOT / folder).rglob("*.cc")]
        names = {name for path in sources if not path.name.endswith("_test.cc")
                 for name in re.findall(r'"(ENTRAIN_[A-Z_]*[A-Z])["=]', path.read_text())}
        self.assertGreater(len(names), 10)
        table = PAGES["docs/program.md"].split("\n## Environment variables\n")[1].split("\n## ")[0]
        for name in names - INTERNAL:
            self.assertIn(f"`{name}", table)

    def test_no_placeholders_stand_in_blocks_that_are_copied(self):
        for page, text in PAGES.items():
            for why, block in re.findall(r"(<!-- not run: [^\n]*\n)?```sh\n(.*?)```", text, re.DOTALL):
                if not why:
                    with self.subTest(page=page):
                        self.assertNotRegex(block, r"FOLDER|FILE\b|\./train|<[a-z]+>|10\.0\.0\.|\bssh ")

    def test_a_block_that_needs_other_hosts_must_say_so(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder, "page.md")
            for block, code in (("ENTRAIN_RENDEZVOUS=10.0.0.1:29400 entrain env", 1), ("ssh host entrain env", 1),
                                ("entrain env", 0)):
                for mark in ("", "<!-- not run: needs hosts -->\n"):
                    with self.subTest(block=block, mark=mark):
                        page.write_text(f"# Page\n{mark}```sh\n{block}\n```\n")
                        done = doc_commands("--list", "--page", page)
                        self.assertEqual(done.returncode, 0 if mark else code, done.stdout + done.stderr)

    def test_messages_that_are_explained_exist(self):
        sources = [path for folder in ("src", "apps", "scripts") for path in (ROOT / folder).rglob("*") if path.is_file()]
        said = "".join(re.sub(r'"\s*\n\s*"', "", path.read_text()) for path in sources)
        rows = re.findall(r"^\| (`.*?) \|", PAGES["docs/troubleshooting.md"], re.MULTILINE)
        messages = [code for row in rows for code in re.findall(r"`([^`]+)`", row) if not code.startswith("entrain ")]
        parts = [part.strip() for message in messages for part in message.split("...")]
        self.assertGreater(len(parts), 30)
        for part in parts:
            self.assertTrue(part in said, part)

    def test_the_readme_is_short_and_leads_to_every_page(self):
        self.assertLessEqual(len(README.split()), 1000)
        for page in PAGES:
            if page.startswith("docs/"):
                self.assertIn(f"({page}", README)

    def test_links_lead_somewhere(self):
        for page, text in PAGES.items():
            for target in re.findall(r"\]\(([^)\s]+)\)", text):
                if target.startswith("http"):
                    continue
                name, _, anchor = target.partition("#")
                path = (ROOT / page).parent / name if name else ROOT / page
                with self.subTest(page=page, target=target):
                    self.assertTrue(path.exists())
                    if anchor:
                        self.assertIn(anchor, anchors_of(path.read_text()))

    def test_version_and_license_are_those_of_the_program(self):
        version = run("--version").stdout.split()[1]
        self.assertIn(f"Version {version} (", README)
        self.assertIn("SPDX-License-Identifier: Apache-2.0", README)
        self.assertRegex((ROOT / "CHANGELOG.md").read_text(), rf"(?m)^## {re.escape(version)} \(20\d\d-\d\d-\d\d\)$")


if __name__ == "__main__":
    unittest.main()
