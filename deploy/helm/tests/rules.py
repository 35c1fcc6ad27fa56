"""What Prometheus makes of the alert rules of two releases side by side. PROMTOOL names promtool. Ends with a line `N passed, N failed`."""
import os
import pathlib
import subprocess
import tempfile

import yaml

from checks import check, end

TESTS = pathlib.Path(__file__).parent
CHART = TESTS.parent / "pgweir"
# The second one's name is the first one's and more, and its pods are a Deployment's.
RELEASES = {
    "one": ["--set", "fullnameOverride=pooler"],
    "two": ["--set", "fullnameOverride=pooler-b,kind=Deployment,databases.app.pool_size=70"],
    "three": ["--set", "fullnameOverride=pooler-0,kind=Deployment,databases.app.pool_size=70"],
}
PODS = {"one": "pooler-0", "two": "pooler-b-5d4f8c7b9d-x2x4z", "three": "pooler-0-5d4f8c7b9d-x2x4z"}


def rules(release):
    command = [os.environ["HELM"], "template", release, str(CHART), "--namespace", "apps", "-f", str(TESTS / "values/cluster.yaml"),
               "--set", "monitoring.prometheusRule.enabled=true", *RELEASES[release]]
    rendered = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return next(o["spec"] for o in yaml.safe_load_all(rendered) if o and o["kind"] == "PrometheusRule")


def series(release, metric, values):
    labels = f'namespace="apps", pod="{PODS[release]}", instance="{release}:9127", job="pgweir"'
    return {"series": f"{metric}{{{labels}}}", "values": values}


def case(name, alert, input_series, *expected):
    """What fires after half an hour: nothing but the expected, each once."""
    alerts = [{"exp_labels": labels, "exp_annotations": annotations} for labels, annotations in expected]
    return {"name": name, "interval": "1m", "input_series": input_series,
            "alert_rule_test": [{"eval_time": "30m", "alertname": alert, "exp_alerts": alerts}]}


def cases():
    up = [series(release, "pgweir_build_info", "1x60") for release in RELEASES]
    yield case("all are there", "PgweirAbsent", up)
    runbook = "docs/guide/alerts.md"
    for gone, name in (("one", "pooler"), ("two", "pooler-b"), ("three", "pooler-0")):
        labels = {"namespace": "apps", "release": gone, "severity": "critical"}
        why = "Prometheus has had no metrics of any of the release's pods for five minutes. No pod runs, or Prometheus does not find them."
        words = {"summary": f"No pod of {name} in namespace apps answers Prometheus.", "description": why, "runbook_url": f"{runbook}#pgweirabsent"}
        left = [series(release, "pgweir_build_info", "1x60") for release in RELEASES if release != gone]
        yield case(f"{gone} vanishes", "PgweirAbsent", left, (labels, words))
    for release, pod in PODS.items():
        labels = {"namespace": "apps", "pod": pod, "instance": f"{release}:9127", "job": "pgweir", "release": release, "severity": "critical"}
        why = f"Prometheus has had no answer from pgweir at {release}:9127 for two minutes. Its clients may be without a database."
        words = {"summary": f"pgweir at {release}:9127 does not answer.", "description": why, "runbook_url": f"{runbook}#pgweirdown"}
        yield case(f"a pod of {release} is down", "PgweirDown", [series(release, "up", "0x60")], (labels, words))


def main():
    promtool = os.environ["PROMTOOL"]
    with tempfile.TemporaryDirectory(prefix="pgweir-rules-") as folder:
        for release in RELEASES:
            path = pathlib.Path(folder) / f"{release}.yaml"
            path.write_text(yaml.safe_dump(rules(release)))
            done = subprocess.run([promtool, "check", "rules", path], capture_output=True, text=True)
            check(f"promtool takes the rules of release {release}", done.returncode == 0, done.stdout + done.stderr)
        for one in cases():
            path = pathlib.Path(folder) / "test.yaml"
            files = [f"{release}.yaml" for release in RELEASES]
            path.write_text(yaml.safe_dump({"rule_files": files, "evaluation_interval": "1m", "tests": [one]}))
            done = subprocess.run([promtool, "test", "rules", path], capture_output=True, text=True)
            check(one["name"], done.returncode == 0, done.stdout + done.stderr)
    end()


main()
