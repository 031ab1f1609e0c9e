"""Samples with gradients and densities of torch.distributions in training: eager's values and gradients, one compile, no call eagerly. (Whatever followed a
draw in the forward graph had sizes of its own, and a check behind a draw is one too late.)"""
import pytest
import torch
import torch.distributions as D
from torch.nn.functional import softplus as positive

import escapement

DISTRIBUTIONS = {
    "Normal": lambda a, b: D.Normal(a, positive(b)), "LogNormal": lambda a, b: D.LogNormal(a, positive(b)), "Laplace": lambda a, b: D.Laplace(a, positive(b)),
    "Gumbel": lambda a, b: D.Gumbel(a, positive(b)), "Weibull": lambda a, b: D.Weibull(positive(a) + 0.1, positive(b) + 0.5), "HalfCauchy": lambda a, b: D.HalfCauchy(positive(b)),
    "Cauchy": lambda a, b: D.Cauchy(a, positive(b)), "Exponential": lambda a, b: D.Exponential(positive(b)), "Uniform": lambda a, b: D.Uniform(a, a + positive(b)),
    "Beta": lambda a, b: D.Beta(positive(a) + 0.5, positive(b) + 0.5), "Gamma": lambda a, b: D.Gamma(positive(a) + 0.5, positive(b) + 0.5),
    "Dirichlet": lambda a, b: D.Dirichlet(positive(a) + 0.5), "StudentT": lambda a, b: D.StudentT(positive(a) + 3, b, positive(b)),
    "Independent": lambda a, b: D.Independent(D.Normal(a, positive(b)), 1), "Kumaraswamy": lambda a, b: D.Kumaraswamy(positive(a) + 0.5, positive(b) + 0.5),
    "mixture": lambda a, b: D.MixtureSameFamily(D.Categorical(logits=a), D.Normal(a, positive(b) + 0.1)),
    "Categorical": lambda a, b: D.Categorical(logits=a), "Bernoulli": lambda a, b: D.Bernoulli(logits=a), "Poisson": lambda a, b: D.Poisson(positive(a)),
    "Geometric": lambda a, b: D.Geometric(logits=a), "NegativeBinomial": lambda a, b: D.NegativeBinomial(positive(a) + 1, logits=b),
    "one hot": lambda a, b: D.OneHotCategoricalStraightThrough(logits=a),
}


def sampled(make):
    def program(a, b):
        distribution = make(a, b)
        distribution._validate_args = False
        sample = distribution.rsample() if distribution.has_rsample else distribution.sample()
        return sample, distribution.log_prob(sample.detach())

    return program


def run(program, rows):
    torch.manual_seed(rows)
    arguments = [torch.randn(rows, 4, requires_grad=True) for _ in range(2)]
    results = program(*arguments)
    sum(result.sum() for result in results if result.requires_grad).backward()
    return [*results, *(argument.grad for argument in arguments if argument.grad is not None)]


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_samples_and_densities(name):
    torch.compiler.reset()
    program = sampled(DISTRIBUTIONS[name])
    compiled = torch.compile(program, backend="escapement")
    for rows in (3, 5, 2, 7):
        for ours, eagers in zip(run(compiled, rows), run(program, rows), strict=True):
            torch.testing.assert_close(ours, eagers, rtol=1e-3, atol=1e-3)
    stats = escapement.stats()
    assert stats["hits"] == 6 and stats["dynamo"]["compiles"] == 1 and stats["dynamo"]["specialised_dims"] == 0 and stats["launches"] >= 3 and not stats.get("eager_calls"), stats
