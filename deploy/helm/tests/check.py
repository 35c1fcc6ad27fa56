"""What tools/check-chart checks without a cluster, beside lint and unit tests: versions, coverage of values, examples, the pooler's
opinion of every rendered file, and the sums of connections. Ends with a line `N passed, N failed`."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import yaml

from checks import check, end

TESTS = pathlib.Path(__file__).parent
CHART = TESTS.parent / "pgweir"
ROOT = TESTS.parents[2]
HELM = os.environ["HELM"]
PGWEIR = os.environ.get("PGWEIR_BIN")
NEWEST = "1.37.0"
OLDEST = "1.25.0"


def render(*arguments, version=NEWEST, chart=CHART):
    command = [HELM, "template", "pooler", str(chart), "--namespace", "apps", "--kube-version", version, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    text = "\n".join(line for line in done.stderr.splitlines() if "symbolic link" not in line)
    return done.returncode, done.stdout, text


def objects(text):
    return [document for document in yaml.safe_load_all(text) if document]


def leaves(value, path=()):
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    else:
        yield path


def versions():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    workspace = re.search(r'\[workspace\.package\]\s+version = "([^"]+)"', (ROOT / "Cargo.toml").read_text()).group(1)
    check("the chart's version is the workspace's", chart["version"] == workspace, f"{chart['version']}, {workspace}")
    check("the chart's appVersion is the workspace's", chart["appVersion"] == workspace)


def unflatten(settings):
    """The paths that a `set` of helm-unittest names: dots in its keys go a level down."""
    for key, value in (settings or {}).items():
        first = tuple(re.split(r"(?<!\\)\.", key))
        for rest in leaves(value):
            yield first + rest


def coverage():
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    tested = set()
    for suite in (TESTS / "unit").glob("*.yaml"):
        content = yaml.safe_load(suite.read_text())
        for one in [content, *content["tests"]]:
            tested.update(unflatten(one.get("set")))
    prefixes = {path[:length] for path in tested for length in range(1, len(path) + 1)}
    missing = [".".join(map(str, path)) for path in leaves(values) if path not in prefixes]
    check("every value is in a unit test", not missing, ", ".join(missing))
    # The schema lists every value, so that a misspelt one is refused.
    schema = json.loads((CHART / "values.schema.json").read_text())
    unknown = [key for key in values if key not in schema["properties"]]
    check("the schema knows every value", not unknown, ", ".join(unknown))


def part_of_another_chart():
    """A chart that has this one as a part hands it the values by which it is switched on, too."""
    with tempfile.TemporaryDirectory() as folder:
        umbrella = pathlib.Path(folder)
        dependency = {"name": "pgweir", "version": ">=0.0.0-0", "condition": "pgweir.enabled", "tags": ["pooler"]}
        head = {"apiVersion": "v2", "name": "umbrella", "version": "1.0.0", "dependencies": [dependency]}
        (umbrella / "Chart.yaml").write_text(yaml.safe_dump(head))
        shutil.copytree(CHART, umbrella / "charts/pgweir")
        inner = {**yaml.safe_load((TESTS / "values/cluster.yaml").read_text()), "tags": {"pooler": True}}
        for enabled, tags, count in ((True, False, 1), (False, True, 0), (None, True, 1), (None, False, 0)):
            part = inner if enabled is None else {**inner, "enabled": enabled}
            (umbrella / "values.yaml").write_text(yaml.safe_dump({"pgweir": part, "tags": {"pooler": tags}, "global": {"a": "b"}}))
            code, text, error = render(chart=umbrella)
            found = sum(o["kind"] == "StatefulSet" for o in objects(text))
            check(f"as a part with enabled {enabled} and its tag {tags} there are {count}", code == 0 and found == count, error or found)


class Files:
    """The folders that a pod would see, below a scratch folder."""

    def __init__(self, rendered, example):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="pgweir-chart-"))
        self.rendered = rendered
        self.example = example

    def write(self):
        config = next(o for o in self.rendered if o["kind"] == "ConfigMap" and "pgweir.ini" in o["data"])
        (self.folder / "etc/pgweir").mkdir(parents=True)
        for name, text in config["data"].items():
            text = text.replace("/etc/pgweir/", f"{self.folder}/etc/pgweir/")
            text = text.replace("/run/secrets/", f"{self.folder}/run/secrets/").replace("/run/pgweir-ca/", f"{self.folder}/run/pgweir-ca/")
            (self.folder / "etc/pgweir" / name).write_text(text)
        workload = next(o for o in self.rendered if o["kind"] in ("StatefulSet", "Deployment"))
        spec = workload["spec"]["template"]["spec"]
        mounts = {m["name"]: m["mountPath"] for m in spec["containers"][0]["volumeMounts"]}
        for volume in spec["volumes"]:
            source = volume.get("secret") or (volume["configMap"] if volume["name"] == "server-ca" else None)
            for item in (source or {}).get("items", []):
                path = self.folder / mounts[volume["name"]].lstrip("/") / item["path"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(self.content(item["key"]))
        return [self.folder / "etc/pgweir" / name for name in config["data"] if name.endswith(".ini")]

    def content(self, key):
        users = b'"app" "secret"\n"gitlab" "secret"\n"shop" "secret"\n"secure_auth_login" "secret"\n'
        if key.endswith((".crt", ".pem")):
            return certificate()[0]
        if key.endswith(".key"):
            return certificate()[1]
        if key == "pg_hba.conf":
            return b'host all all all ldap ldapserver=ldap.example.org ldapbasedn="dc=example" ldapbinddn="cn=pooler" ldapbindpasswd=secret\n'
        if key == "settings.ini":
            return b'auth_ldap_options = ldapserver=ldap.example.org ldapbasedn="dc=example" ldapbinddn="cn=pooler" ldapbindpasswd=secret\n'
        if key.endswith(".ini"):
            return b"extra = host=db.example.org\n"
        return users if key == "users.txt" else b"secret"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)


def certificate(made=[]):
    if not made:
        with tempfile.TemporaryDirectory() as folder:
            key, crt = f"{folder}/k", f"{folder}/c"
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", crt]
                + ["-subj", "/CN=pooler", "-addext", "subjectAltName=DNS:pooler", "-days", "2"],
                check=True, capture_output=True)
            made += [pathlib.Path(crt).read_bytes(), pathlib.Path(key).read_bytes()]
    return made


# The pooler's own words on what one process may open, for each server.
DEMAND = re.compile(r"^  (\S+:\d+): (\d+) \(", re.M)
# The chart's words, at the beginning of the file.
COUNTED = re.compile(r"^; (\S+:\d+) gets (\d+) connections from a pod", re.M)


def judged_by_the_pooler(name, rendered):
    with Files(rendered, name) as files:
        for path in files.write():
            done = subprocess.run([PGWEIR, "check", str(path)], capture_output=True, text=True)
            check(f"{name}: pgweir check {path.name}", done.returncode == 0, done.stderr)
            # A pod's own file says who it is; the common file alone has peers and no number.
            if path.name != "pgweir.ini":
                check(f"{name}: {path.name} names its peer_id", "peer_id to be set" not in done.stderr, done.stderr)
        # Both count the same servers, and the chart no less than the pooler.
        counted = dict(COUNTED.findall((files.folder / "etc/pgweir/pgweir.ini").read_text()))
        judged = dict(DEMAND.findall(done.stdout))
        check(f"{name}: the chart counts the servers that the pooler counts", set(counted) == set(judged), f"{counted}, {judged}")
        for server in set(counted) & set(judged):
            check(f"{name}: {server}", int(judged[server]) <= int(counted[server]), f"the pooler may open {judged[server]}, the chart says {counted[server]}")


def examples():
    for values in sorted([*(CHART / "examples").glob("*.yaml"), *(TESTS / "values").glob("*.yaml")]):
        for version in (OLDEST, NEWEST):
            code, text, error = render("-f", str(values), version=version)
            check(f"{values.name} renders for {version}", code == 0, error)
        if code == 0 and PGWEIR and "urlSecret" not in yaml.safe_load(values.read_text()):
            judged_by_the_pooler(values.name, objects(text))


# Words of PromQL that stand where a metric could; what is followed by a parenthesis is a function.
PROMQL_WORDS = {"and", "or", "unless", "offset", "on", "ignoring", "by", "without", "bool", "group_left", "group_right"}


def metrics(expr):
    """Each metric of an expression, and what stands in its braces, or None."""
    expr = re.sub(r"\b(by|without|on|ignoring)\s*\([^)]*\)", " ", expr)
    # Strings may have braces: they are set aside.
    strings = []
    expr = re.sub(r'"(?:[^"\\]|\\.)*"', lambda found: strings.append(found[0]) or f'"{len(strings) - 1}"', expr)
    expr = re.sub(r"\[[^\]]*\]", " ", expr)
    for name, braces, parenthesis in re.findall(r"\b([a-z_]\w*)\b(?:\{([^}]*)\})?\s*(\()?(?![^{}]*\})", expr):
        if not parenthesis and name not in PROMQL_WORDS:
            yield name, re.sub(r'"(\d+)"', lambda found: strings[int(found[1])], braces)


def alerts_of_this_release_only():
    values = TESTS / "values/everything.yaml"
    code, text, error = render("-f", str(values))
    assert code == 0, error
    groups = next(o for o in objects(text) if o["kind"] == "PrometheusRule")["spec"]["groups"]
    given = yaml.safe_load((CHART / "files/pgweir.rules.yaml").read_text())["groups"]
    own = 'namespace="apps", pod=~"pooler-pgweir-[0-9]+"'
    for group, original in zip(groups, given, strict=True):
        for rule, untouched in zip(group["rules"], original["rules"], strict=True):
            found, before = list(metrics(rule["expr"])), list(metrics(untouched["expr"]))
            wanted = [(name, f"{own}, {braces}" if braces else own) for name, braces in before]
            check(f"{rule['alert']} asks for this release only", found and found == wanted, f"{rule['expr']}: {found}")


def reload_or_restart():
    """A setting that a running pod takes up replaces no pod; another one does."""
    values = str(CHART / "examples/cloudnative-pg.yaml")

    def pod(*arguments):
        code, text, error = render("-f", values, *arguments)
        assert code == 0, error
        return next(o for o in objects(text) if o["kind"] == "StatefulSet")["spec"]["template"]

    plain = pod()
    for setting in ("query_timeout=7", "default_pool_size=30", "log_connections=0", "max_client_conn=7"):
        check(f"settings.{setting} replaces no pod", pod("--set", f"settings.{setting}") == plain)
    check("another size replaces no pod", pod("--set", "databases.app.pool_size=30") == plain)
    for setting in ("workers=3", "listen_backlog=100", "disable_pqexec=1", "auth_threads=3"):
        check(f"settings.{setting} replaces pods", pod("--set", f"settings.{setting}") != plain)


def a_cluster_that_does_not_come_up():
    """Its processes end all the same. Programs that only wait stand for etcd and the API server."""
    with tempfile.TemporaryDirectory() as folder:
        bin_folder = pathlib.Path(folder) / "bin"
        bin_folder.mkdir()
        for name in ("etcd", "kube-apiserver"):
            (bin_folder / name).write_text("#!/bin/sh\nexec sleep 600\n")
            (bin_folder / name).chmod(0o755)
        os.environ.update(CLUSTER_BIN=str(bin_folder), CRD_FILES="")
        import cluster
        cluster.PATIENCE_S = 0.5
        one = cluster.Cluster(pathlib.Path(folder))
        try:
            one.__enter__()
            check("a cluster without an API server is refused", False)
        except SystemExit:
            running = [process.args[0].name for process in one.processes if process.poll() is None]
            check("a cluster that does not come up leaves no process", len(one.processes) == 2 and not running, running)
            for process in one.processes:
                process.kill()


def main():
    versions()
    coverage()
    part_of_another_chart()
    alerts_of_this_release_only()
    reload_or_restart()
    a_cluster_that_does_not_come_up()
    examples()
    if not PGWEIR:
        print("SKIPPED pgweir check: PGWEIR_BIN names no program")
    end()


main()
