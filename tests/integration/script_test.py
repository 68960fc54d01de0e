"""A PyTorch user's model, taken from docs/python-models.md: exported, looked at, tuned, trained, loaded again."""
import json
import pathlib
import subprocess
import tempfile
import unittest

from support import ENTRAIN, read_tensors, result, run

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/python-models.md"
PYTHON = "/usr/bin/python3"  # Debian's python3-torch belongs to it, whatever else is in PATH
STEPS, BATCH, RATE = 5, 16, 0.1


def blocks(language):
    return [part.split("```")[0] for part in PAGE.read_text().split(f"```{language}\n")[1:]]


def python(code, folder):
    script = folder / "script.py"  # TorchScript reads its source
    script.write_text(code)
    done = subprocess.run([PYTHON, script], cwd=folder, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout


# The same training, as one would write it in PyTorch.
LOOP = f"""
import json, numpy, torch
model = torch.jit.load("my_model.pt")
x, y = (torch.from_numpy(numpy.load(f"my_data/{{n}}.npy")) for n in "xy")
order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
optimizer = torch.optim.SGD(model.parameters(), lr={RATE})
losses = []
for step in range({STEPS}):
    rows = order[step * {BATCH}:(step + 1) * {BATCH}]
    optimizer.zero_grad()
    loss = model(x[rows], y[rows])
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
torch.save(model.state_dict(), "expected.pt")
print(json.dumps(losses))
"""

# How far the trained model, loaded in Python, is from what the loop made.
COMPARE = """
import sys, torch
expected, trained = torch.load("expected.pt"), torch.jit.load("trained.pt")
assert list(trained.state_dict()) == list(expected), list(trained.state_dict())
assert all(p.requires_grad for p in trained.parameters())
trained(*trained.example(4)).backward()
print(max((trained.state_dict()[n] - t).abs().max().item() for n, t in expected.items()))
"""

# Batch norm (buffers, one of which scripts replace), an LSTM (weights in a list), a tied weight, three inputs.
RICH = """
import torch, torch.nn as nn, torch.nn.functional as F
class Rich(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.lstm, self.norm = nn.Embedding(30, 8), nn.LSTM(8, 8, 2, batch_first=True), nn.BatchNorm1d(8)
        self.out = nn.Linear(8, 30)
        self.out.weight = self.words.weight
        self.classes = 30
    def forward(self, tokens, target, weight):
        h = self.norm(self.lstm(self.words(tokens))[0].flatten(0, 1))
        losses = F.cross_entropy(self.out(h), target.flatten(), reduction="none").view(target.shape)
        return (losses.mean(1) * weight).mean()
    @torch.jit.export
    def example(self, n: int):
        tokens = torch.randint(30, [n, 6])
        return tokens, (tokens + 1) % 30, torch.ones(n)
torch.manual_seed(1)
torch.jit.script(Rich()).save("rich.pt")
"""


def has_torch():
    return subprocess.run([PYTHON, "-c", "import torch, numpy"], capture_output=True).returncode == 0


@unittest.skipUnless(has_torch(), f"{PYTHON} has no torch and numpy (package python3-torch)")
class OwnModel(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def refusal(self, *args):
        done = run(*args)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        return done.stderr

    def test_the_page_as_it_stands(self):
        python("".join(blocks("python")), self.folder)
        commands = blocks("sh")[0].replace("\\\n", " ").splitlines()
        self.assertEqual([line.split()[1] for line in commands], ["graph", "tune", "train"])
        for line in commands:
            done = subprocess.run([ENTRAIN, *line.split()[1:]], cwd=self.folder, capture_output=True, text=True,
                                  timeout=300)
            self.assertEqual(done.returncode, 0, line + done.stdout + done.stderr)
        self.assertTrue(json.loads((self.folder / "my_tune/result.json").read_text())["best_step_time_s"] > 0)
        python("import torch; m = torch.jit.load('trained.pt'); m(*m.example(3))", self.folder)
        names = read_tensors(self.folder / "trained.safetensors")[0]
        self.assertEqual(sorted(names), ["net.0.bias", "net.0.weight", "net.2.bias", "net.2.weight"])

    def test_trains_as_a_loop_in_pytorch(self):
        python("".join(blocks("python")), self.folder)
        losses = json.loads(python(LOOP, self.folder))
        f = self.folder
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                r = result(run("train", "--model", f / "my_model.pt", "--data", f / "my_data", "--cluster", f"local:{ranks}",
                               "--steps", STEPS, "--batch-size", BATCH // ranks, "--lr", RATE, "--out", f / f"run{ranks}",
                               "--save-model", f / "trained.pt", "--json"))
                self.assertAlmostEqual(r["first_loss"], losses[0], places=5)
                self.assertAlmostEqual(r["last_loss"], losses[-1], places=5)
                self.assertLess(float(python(COMPARE, f)), 1e-5)
        lines = (f / "run1/metrics.jsonl").read_text().splitlines()
        for line, loss in zip(map(json.loads, lines), losses, strict=True):
            self.assertAlmostEqual(line["loss"], loss, places=5)

    def test_buffers_lists_and_tied_weights(self):
        python(RICH, self.folder)
        f = self.folder
        g = result(run("graph", "--model", f / "rich.pt", "--json"))
        names = [variable["name"] for variable in g["variables"]]
        self.assertEqual(names[0], "words.weight")
        self.assertNotIn("out.weight", names)  # tied
        self.assertLess(names.index("lstm.weight_hh_l0"), names.index("norm.weight"))
        self.assertGreater(len({v["ready_order"] for v in g["variables"]}), 10)
        self.assertTrue(g["edges"])
        r = result(run("train", "--model", f / "rich.pt", "--cluster", "local:2", "--steps", 30, "--batch-size", 8,
                       "--lr", 0.5, "--save", f / "a.safetensors", "--save-model", f / "a.pt", "--json"))
        self.assertLess(r["last_loss"], 0.9 * r["first_loss"])
        tensors = read_tensors(f / "a.safetensors")[0]
        self.assertEqual(int.from_bytes(tensors["norm.num_batches_tracked"], "little"), 30)
        self.assertEqual(tensors["out.weight"], tensors["words.weight"])
        self.assertEqual(python("import torch; s = torch.jit.load('a.pt').state_dict(); "
                                "print(s['norm.num_batches_tracked'].item(), s['norm.running_mean'].abs().sum() > 0, "
                                "*sorted(s))", f).split(), ["30", "tensor(True)", *sorted(tensors)])
        again = result(run("train", "--model", f / "rich.pt", "--init", f / "a.safetensors", "--cluster", "local:2",
                           "--steps", 2, "--batch-size", 8, "--json"))
        self.assertLess(again["first_loss"], 0.9 * r["first_loss"])

    def test_rules_that_train_apart_save_what_they_agreed_on(self):
        python(RICH, self.folder)
        f = self.folder
        for rule in (["--cluster", "local:2", "--optimizer", "lsgd", "--period", 2],
                     ["--cluster", "local:2", "--optimizer", "easgd-async", "--period", 2],
                     ["--optimizer", "hogwild", "--threads", 2]):
            with self.subTest(rule=rule):
                before = result(run("train", "--model", f / "rich.pt", *rule, "--steps", 40, "--batch-size", 8, "--lr", 0.3,
                                    "--save-model", f / "b.pt", "--json"))
                after = result(run("train", "--model", f / "b.pt", "--steps", 2, "--batch-size", 8, "--json"))
                self.assertLess(after["first_loss"], 0.95 * before["first_loss"])
                self.assertGreaterEqual(int(python("import torch; print(torch.jit.load('b.pt').norm.num_batches_tracked.item())",
                                                   f)), 40)

    def test_a_module_with_layers_can_be_cut(self):
        f = self.folder
        python("".join(blocks("python")), f)
        common = ["train", "--model", f / "layered.pt", "--data", f / "my_data", "--cluster", "local:3", "--global-batch", 30, "--steps", 6,
                  "--lr", "0.2", "--json"]
        whole = result(run(*common))
        self.assertLess(whole["last_loss"], whole["first_loss"])
        for shape in ("0-1@0 2@1,2 m=5", "0@2 1@0,1 2@0 m=4", "@1"):
            with self.subTest(shape):
                cut = result(run(*common, "--shape", shape))
                self.assertAlmostEqual(cut["last_loss"], whole["last_loss"], delta=1e-5 * whole["last_loss"])

    def test_what_is_wrong_is_said(self):
        f = self.folder
        python("".join(blocks("python")) + """
torch.save({"a": torch.ones(3)}, "state.pt")
class Scores(MyModel):
    def forward(self, x, y): return self.net(x)
torch.jit.script(Scores()).save("scores.pt")
class Silent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(20, 1)
    def forward(self, x): return self.a(x).mean()
torch.jit.script(Silent()).save("silent.pt")
class Pair(Silent):
    def forward(self, x): return self.a(x).mean(), x
torch.jit.script(Pair()).save("pair.pt")
numpy.save("my_data/short.npy", numpy.zeros((7, 3)))
os.makedirs("wide"); numpy.save("wide/x.npy", numpy.zeros((64, 30))); numpy.save("wide/y.npy", numpy.zeros(64, dtype=int))
os.makedirs("odd"); numpy.save("odd/x.npy", numpy.zeros((64, 20))); numpy.save("odd/y.npy", numpy.zeros(63, dtype=int))
os.makedirs("half"); numpy.save("half/x.npy", numpy.zeros((64, 20)))
""", f)
        (f / "junk.pt").write_text("junk")
        for words, args in (
                (["nothere.pt", "no such file"], ["graph", "--model", f / "nothere.pt"]),
                (["junk.pt", "not TorchScript"], ["graph", "--model", f / "junk.pt"]),
                (["state.pt", "not TorchScript"], ["train", "--model", f / "state.pt"]),
                (["scores.pt", "forward returns [32, 5]", "one floating-point number"],
                 ["graph", "--model", f / "scores.pt"]),
                (["pair.pt", "forward returns Tuple"], ["graph", "--model", f / "pair.pt"]),
                (["silent.pt", "`example`", "`data`"], ["graph", "--model", f / "silent.pt"]),
                (["x [32, 30] Float", "cannot be multiplied"],
                 ["train", "--model", f / "my_model.pt", "--data", f / "wide"]),
                (["y is [63]", "[64, 20]"], ["train", "--model", f / "my_model.pt", "--data", f / "odd"]),
                (["no y there", "x, y"], ["train", "--model", f / "my_model.pt", "--data", f / "half"]),
                (["--test-every", "test_NAME"],
                 ["train", "--model", f / "my_model.pt", "--data", f / "my_data", "--test-every", 2]),
                (["--save-model", "--save"], ["train", "--model", "vgg16-small", "--save-model", f / "o.pt"]),
                (["no such folder"], ["train", "--model", f / "my_model.pt", "--save", f / "no/where.safetensors"]),
                (["not a sequence"], ["train", "--model", f / "my_model.pt", "--pipeline", 2])):
            with self.subTest(words=words):
                said = self.refusal(*args)
                for word in words:
                    self.assertIn(word, said)
        trained = run("train", "--model", f / "silent.pt", "--data", f / "half", "--steps", 2)
        self.assertEqual(trained.returncode, 0, trained.stderr)


if __name__ == "__main__":
    unittest.main()
