"""The models of the zoo that the bench compares, as a PyTorch user writes them: same layers, same sizes."""
import torch
from torch import nn

# MovieLens-20M, as in NeuMF.
USERS, ITEMS = 138493, 26744


class Vgg16(nn.Module):
    """VGG16 for 32x32 images: 13 convolutions, 512-4096-4096-10, 33.6 M parameters."""

    inputs = staticmethod(lambda batch: (torch.randn(batch, 3, 32, 32),))
    targets = staticmethod(lambda batch: torch.randint(10, (batch,)))
    loss = staticmethod(nn.functional.cross_entropy)

    def __init__(self):
        super().__init__()
        layers, channels = [], 3
        for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
            for _ in range(count):
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
                channels = width
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(512, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 10))

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


class NeuMF(nn.Module):
    """NCF: a generalised factorisation of width 64 beside an MLP 256-256-128-64: 31.8 M parameters."""

    inputs = staticmethod(lambda batch: (torch.randint(USERS, (batch,)), torch.randint(ITEMS, (batch,))))
    targets = staticmethod(lambda batch: torch.randint(2, (batch,)).float())
    loss = staticmethod(nn.functional.binary_cross_entropy_with_logits)

    def __init__(self, sparse):
        super().__init__()
        self.mf_user = nn.Embedding(USERS, 64, sparse=sparse)
        self.mf_item = nn.Embedding(ITEMS, 64, sparse=sparse)
        self.mlp_user = nn.Embedding(USERS, 128, sparse=sparse)
        self.mlp_item = nn.Embedding(ITEMS, 128, sparse=sparse)
        self.mlp = nn.Sequential(
            nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
        self.out = nn.Linear(128, 1)

    def forward(self, user, item):
        mf = self.mf_user(user) * self.mf_item(item)
        mlp = self.mlp(torch.cat([self.mlp_user(user), self.mlp_item(item)], 1))
        return self.out(torch.cat([mf, mlp], 1)).squeeze(1)


class Encoder(nn.Module):
    """One layer of BERT: attention and a feed-forward network, each added to its input and normalized."""

    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(hidden, hidden) for _ in range(4))
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
        self.norm1, self.norm2 = nn.LayerNorm(hidden, eps=1e-12), nn.LayerNorm(hidden, eps=1e-12)

    def forward(self, x):
        n, length, hidden = x.shape
        split = lambda t: t.view(n, length, self.heads, hidden // self.heads).transpose(1, 2)
        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        weights = torch.softmax(q @ k.transpose(2, 3) / (hidden // self.heads) ** 0.5, -1)
        y = self.norm1(x + self.output((weights @ v).transpose(1, 2).reshape(x.shape)))
        return self.norm2(y + self.down(nn.functional.gelu(self.up(y))))


class BertSmall(nn.Module):
    """BERT, 2 layers of 64, 1000 tokens, 16 of them in a sequence, 2 masked; 170,536 parameters."""

    TOKENS, LENGTH, MASKS, HIDDEN = 1000, 16, 2, 64
    inputs = staticmethod(lambda batch: (torch.randint(1, BertSmall.TOKENS, (batch, BertSmall.LENGTH)),
                                         torch.rand(batch, BertSmall.LENGTH).topk(BertSmall.MASKS, 1)[1]))
    targets = staticmethod(lambda batch: torch.randint(BertSmall.TOKENS, (batch * BertSmall.MASKS,)))
    loss = staticmethod(nn.functional.cross_entropy)

    def __init__(self):
        super().__init__()
        h = self.HIDDEN
        self.tokens, self.positions, self.segments = (nn.Embedding(n, h) for n in (self.TOKENS, self.LENGTH, 2))
        self.norm, self.transform_norm = nn.LayerNorm(h, eps=1e-12), nn.LayerNorm(h, eps=1e-12)
        self.encoder = nn.Sequential(Encoder(h, 2), Encoder(h, 2))
        self.transform = nn.Linear(h, h)
        self.decoder_bias = nn.Parameter(torch.zeros(self.TOKENS))

    def forward(self, tokens, masked):
        place = torch.arange(tokens.shape[1])
        x = self.tokens(tokens) + self.positions(place) + self.segments((place * 2 >= tokens.shape[1]).long())
        x = self.encoder(self.norm(x))
        x = x.gather(1, masked.unsqueeze(2).expand(-1, -1, x.shape[2]))
        x = self.transform_norm(nn.functional.gelu(self.transform(x)))
        return nn.functional.linear(x, self.tokens.weight, self.decoder_bias).flatten(0, 1)


class Bottleneck(nn.Module):
    def __init__(self, inside, width, stride):
        super().__init__()
        conv = lambda i, o, k, s: nn.Sequential(nn.Conv2d(i, o, k, s, k // 2, bias=False), nn.BatchNorm2d(o))
        self.body = nn.Sequential(conv(inside, width, 1, 1), nn.ReLU(), conv(width, width, 3, stride), nn.ReLU(),
                                  conv(width, 4 * width, 1, 1))
        same = inside == 4 * width and stride == 1
        self.shortcut = nn.Identity() if same else conv(inside, 4 * width, 1, stride)

    def forward(self, x):
        return torch.relu(self.body(x) + self.shortcut(x))


class ResNet50(nn.Module):
    """224x224 images, 1000 classes, 25,557,032 parameters."""

    inputs = staticmethod(lambda batch: (torch.randn(batch, 3, 224, 224),))
    targets = staticmethod(lambda batch: torch.randint(1000, (batch,)))
    loss = staticmethod(nn.functional.cross_entropy)

    def __init__(self):
        super().__init__()
        layers, inside = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
                          nn.MaxPool2d(3, 2, 1)], 64
        for stage, blocks in enumerate((3, 4, 6, 3)):
            for block in range(blocks):
                layers.append(Bottleneck(inside, 64 << stage, 2 if stage and not block else 1))
                inside = 256 << stage
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.out = nn.Linear(inside, 1000)

    def forward(self, x):
        return self.out(self.features(x))


MODELS = {
    "vgg16-32": Vgg16,
    "bert-small": BertSmall,
    "ncf": lambda: NeuMF(sparse=False),
    "ncf-sparse": lambda: NeuMF(sparse=True),
    "resnet50": ResNet50,
}
