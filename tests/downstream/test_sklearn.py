"""scikit-learn with ``array_api_dispatch=True``: its own checks of estimators, and what its functions return."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("sklearn", minversion="1.7")
pytest.importorskip("scipy", minversion="1.15")

_CHECKS = """
    import warnings

    from sklearn.exceptions import SkipTestWarning
    from sklearn.utils.estimator_checks import check_array_api_input
    {imports}

    for estimator in [{estimators}]:
        for device, dtype in (("cpu", "float64"), (None, "float32")):
            with warnings.catch_warnings():
                warnings.simplefilter("error", SkipTestWarning)  # a check that skips has shown nothing
                check_array_api_input(
                    type(estimator).__name__, estimator, "tenkey", device_name=device, dtype_name=dtype,
                    check_values={values},
                )
        print("ok")
"""


@pytest.mark.parametrize(("imports", "estimators"), [
    pytest.param("from sklearn.linear_model import Ridge, RidgeCV, RidgeClassifier",
     ["Ridge(solver='svd')", "RidgeCV()", "RidgeClassifier(solver='svd')"], marks=pytest.mark.full),
    pytest.param("from sklearn.decomposition import PCA",
     ["PCA(n_components=2, svd_solver='full')", "PCA(n_components=2, svd_solver='covariance_eigh', whiten=True)"],
     marks=pytest.mark.full),
    pytest.param("from sklearn.discriminant_analysis import LinearDiscriminantAnalysis",
                 ["LinearDiscriminantAnalysis()"], marks=pytest.mark.full),
    ("from sklearn.preprocessing import *",
     ["StandardScaler()", "MinMaxScaler()", "MaxAbsScaler()", "Normalizer()", "KernelCenterer()", "Binarizer()",
      "PolynomialFeatures(degree=2)"]),
    # without values: its score is a mean of truths, which has our default dtype, float32, also where X is float64
    pytest.param("from sklearn.naive_bayes import GaussianNB", ["GaussianNB()"], marks=pytest.mark.full),
])  # fmt: skip
def test_own_checks_of_estimators(run_program: Callable[[str], str], imports: str, estimators: list[str]) -> None:
    text = _CHECKS.format(imports=imports, estimators=", ".join(estimators), values="GaussianNB()" not in estimators)
    assert run_program(text).split() == ["ok"] * len(estimators)


def test_a_pipeline_with_its_metrics(run_program: Callable[[str], str]) -> None:
    printed = run_program("""
        import numpy as np
        from sklearn import config_context
        from sklearn.datasets import load_iris
        from sklearn.decomposition import PCA
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
        from sklearn.metrics import accuracy_score, pairwise_distances, r2_score
        from sklearn.model_selection import train_test_split
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        import tenkey as tk

        values, labels = load_iris(return_X_y=True)
        model = lambda: make_pipeline(StandardScaler(), PCA(n_components=3), LinearDiscriminantAnalysis())
        with config_context(array_api_dispatch=True):
            X, y = tk.asarray(values), tk.asarray(labels)
            X, X_test, y, y_test = train_test_split(X, y, random_state=0)
            fitted = model().fit(X, y)
            answer, chances = fitted.predict(X_test), fitted.predict_proba(X_test)
            score = accuracy_score(y_test, answer)
            distances = pairwise_distances(X_test, X)
            r2 = r2_score(y_test.astype(tk.float64), answer.astype(tk.float64))
        assert all(type(t) is tk.Tensor for t in (X, X_test, answer, chances, distances))
        assert type(fitted[1].components_) is tk.Tensor and answer.dtype == y.dtype
        plain = model().fit(X.numpy(), y.numpy())
        assert np.array_equal(plain.predict(X_test.numpy()), answer.numpy())
        np.testing.assert_allclose(plain.predict_proba(X_test.numpy()), chances.numpy(), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(pairwise_distances(X_test.numpy(), X.numpy()), distances.numpy(), atol=1e-9)
        assert abs(float(score) - plain.score(X_test.numpy(), y_test.numpy())) < 1e-6  # a mean of truths: float32
        assert abs(float(r2) - r2_score(y_test.numpy(), answer.numpy())) < 1e-12
        print("ok")
    """)
    assert printed.split() == ["ok"]


def test_curves_of_scores(run_program: Callable[[str], str]) -> None:
    printed = run_program("""
        import numpy as np
        from sklearn import config_context, metrics
        import tenkey as tk

        rng = np.random.default_rng(0)
        labels, scores = (rng.random(50) > 0.5).astype(int), rng.random(50)
        for name in ("roc_curve", "precision_recall_curve", "roc_auc_score", "average_precision_score"):
            function = getattr(metrics, name)
            with config_context(array_api_dispatch=True):
                got = function(tk.asarray(labels), tk.asarray(scores))
            want = function(labels, scores)
            if isinstance(got, tuple):
                assert all(type(part) is tk.Tensor for part in got)
                got = [part.numpy() for part in got]
            for one, other in zip(got, want) if isinstance(got, list) else [(got, want)]:
                np.testing.assert_allclose(one, other, rtol=1e-6)
        print("ok")
    """)
    assert printed.split() == ["ok"]
