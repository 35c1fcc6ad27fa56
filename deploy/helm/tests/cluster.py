"""Installs, upgrades and removes the chart at a real API server with Kubernetes' own controllers. There are no nodes: pods are made and
stay Pending. Ends with a line `N passed, N failed`."""
import base64
import json
import os
import pathlib
import secrets
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import yaml

from checks import check, end

TESTS = pathlib.Path(__file__).parent
CHART = TESTS.parent / "pgweir"
BIN = pathlib.Path(os.environ["CLUSTER_BIN"])
HELM = os.environ["HELM"]
CRDS = os.environ["CRD_FILES"].split()
PATIENCE_S = 90


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def until(name, question):
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        try:
            answer = question()
        except (urllib.error.URLError, ConnectionError, OSError, KeyError):
            answer = None
        if answer:
            return answer
        time.sleep(0.2)
    raise SystemExit(f"0 passed, 1 failed ({name} did not come true within {PATIENCE_S} s)")


class Cluster:
    def __init__(self, folder):
        self.folder = folder
        self.token = secrets.token_hex(16)
        self.port = free_port()
        self.processes = []
        self.context = ssl._create_unverified_context()

    def start(self, name, *arguments):
        log = open(self.folder / f"{name}.log", "w")
        self.processes.append(subprocess.Popen([BIN / name, *arguments], stdout=log, stderr=subprocess.STDOUT))

    def __enter__(self):
        try:
            self.begin()
        except BaseException:
            # Python leaves only a block that it has entered.
            self.end()
            raise
        return self

    def __exit__(self, *_):
        self.end()

    def begin(self):
        f = self.folder
        client, peer = free_port(), free_port()
        subprocess.run(["openssl", "genrsa", "-out", f / "sa.key", "2048"], check=True, capture_output=True)
        (f / "tokens.csv").write_text(f'{self.token},admin,admin,"system:masters"\n')
        self.start("etcd", "--data-dir", f / "etcd", "--unsafe-no-fsync",
                   "--listen-client-urls", f"http://127.0.0.1:{client}", "--advertise-client-urls", f"http://127.0.0.1:{client}",
                   "--listen-peer-urls", f"http://127.0.0.1:{peer}")
        self.start("kube-apiserver", "--etcd-servers", f"http://127.0.0.1:{client}", "--secure-port", str(self.port),
                   "--bind-address", "127.0.0.1", "--cert-dir", f / "certificates", "--token-auth-file", f / "tokens.csv",
                   "--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.96.0.0/16",
                   "--service-account-issuer", "https://localhost", "--service-account-key-file", f / "sa.key",
                   "--service-account-signing-key-file", f / "sa.key")
        until("the API server", lambda: self.text("/readyz") == "ok")
        cluster = {"server": f"https://127.0.0.1:{self.port}", "insecure-skip-tls-verify": True}
        self.kubeconfig = f / "kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump({
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "x", "cluster": cluster}], "users": [{"name": "x", "user": {"token": self.token}}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}]}))
        self.start("kube-controller-manager", "--kubeconfig", self.kubeconfig, "--leader-elect=false",
                   "--service-account-private-key-file", f / "sa.key", "--use-service-account-credentials=false",
                   "--root-ca-file", f / "certificates/apiserver.crt", "--secure-port", str(free_port()), "--bind-address", "127.0.0.1",
                   "--cert-dir", f / "controllers")

    def end(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in reversed(self.processes):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()

    def request(self, path, method="GET", body=None):
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}", method=method)
        request.add_header("Authorization", f"Bearer {self.token}")
        data = None
        if body is not None:
            request.add_header("Content-Type", "application/json")
            data = json.dumps(body, default=str).encode()
        return urllib.request.urlopen(request, data, timeout=20, context=self.context).read()

    def text(self, path):
        return self.request(path).decode()

    def get(self, path):
        try:
            return json.loads(self.request(path))
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def post(self, path, body):
        try:
            return json.loads(self.request(path, "POST", body))
        except urllib.error.HTTPError as error:
            raise SystemExit(f"0 passed, 1 failed (POST {path}: {error.read().decode()[:500]})") from error

    def helm(self, *arguments):
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        done = subprocess.run([HELM, "--namespace", "apps", *arguments], capture_output=True, text=True, env=environment)
        output = "\n".join(line for line in (done.stdout + done.stderr).splitlines() if "symbolic link" not in line)
        return done.returncode, output


def secret(cluster, name, **data):
    encoded = {key.replace("_", "."): base64.b64encode(value.encode()).decode() for key, value in data.items()}
    cluster.post("/api/v1/namespaces/apps/secrets", {"metadata": {"name": name}, "data": encoded})


def pods(cluster):
    items = cluster.get("/api/v1/namespaces/apps/pods")["items"]
    return {pod["metadata"]["name"]: pod for pod in items if not pod["metadata"].get("deletionTimestamp")}


def install(cluster):
    values = str(TESTS / "values/cluster.yaml")
    code, output = cluster.helm("install", "pooler", str(CHART), "-f", values)
    check("an install without the Secrets is refused", code != 0 and "There is no Secret app-db in namespace apps" in output, output)
    secret(cluster, "app-db", other="x")
    code, output = cluster.helm("install", "pooler", str(CHART), "-f", values)
    check("an install without the Secret's key is refused", code != 0 and "has no key password. It has: other" in output, output)
    cluster.request("/api/v1/namespaces/apps/secrets/app-db", "DELETE")
    secret(cluster, "app-db", password="secret")
    secret(cluster, "users", users_txt='"app" "secret"')
    code, output = cluster.helm("install", "pooler", str(CHART), "-f", values)
    check("an install succeeds", code == 0, output)
    check("NOTES say how to connect", "postgres://app@pooler-pgweir.apps.svc:6432/app" in output, output)
    check("NOTES say how many connections there are", "db.example.org:5432: 60 (20 a pod, for app) of 97" in output, output)
    check("the API server has no objection", "unknown field" not in output and "Warning" not in output, output)


def look(cluster):
    made = until("three pods", lambda: len(pods(cluster)) == 3 and pods(cluster))
    check("pods have numbers", sorted(made) == [f"pooler-pgweir-{n}" for n in range(3)], sorted(made))
    pod = made["pooler-pgweir-0"]
    check("a pod asks the restricted Pod Security Standard", is_restricted(cluster), "")
    check("a pod has its file", pod["spec"]["containers"][0]["args"] == ["/etc/pgweir/$(POD_NAME).ini"], pod["spec"]["containers"])
    monitors = cluster.get("/apis/monitoring.coreos.com/v1/namespaces/apps/podmonitors")["items"]
    rules = cluster.get("/apis/monitoring.coreos.com/v1/namespaces/apps/prometheusrules")["items"]
    check("monitoring comes by itself where the cluster knows it", len(monitors) == 1 and len(rules) == 1)
    certificates = cluster.get("/apis/cert-manager.io/v1/namespaces/apps/certificates")["items"]
    check("certificates are there", len(certificates) == 1)
    budget = cluster.get("/apis/policy/v1/namespaces/apps/poddisruptionbudgets/pooler-pgweir")
    check("the budget lets one go", budget["spec"]["maxUnavailable"] == 1)
    until("the budget counts the pods", lambda: cluster.get(
        "/apis/policy/v1/namespaces/apps/poddisruptionbudgets/pooler-pgweir")["status"]["expectedPods"] == 3)
    check("the budget counts the pods", True)
    slices = until("endpoints", lambda: cluster.get("/apis/discovery.k8s.io/v1/namespaces/apps/endpointslices")["items"])
    check("Services have endpoints", {s["metadata"]["labels"]["kubernetes.io/service-name"] for s in slices} >= {"pooler-pgweir", "pooler-pgweir-pods"})


def is_restricted(cluster):
    """The namespace enforces the standard, so that pods that are made obey it."""
    labels = cluster.get("/api/v1/namespaces/apps")["metadata"]["labels"]
    return labels.get("pod-security.kubernetes.io/enforce") == "restricted" and len(pods(cluster)) == 3


def revision(cluster):
    return cluster.get("/apis/apps/v1/namespaces/apps/statefulsets/pooler-pgweir")["status"]["updateRevision"]


def ini(cluster):
    return cluster.get("/api/v1/namespaces/apps/configmaps/pooler-pgweir")["data"]["pgweir.ini"]


def upgrade(cluster):
    values = ["-f", str(TESTS / "values/cluster.yaml")]
    before, uids = revision(cluster), {name: pod["metadata"]["uid"] for name, pod in pods(cluster).items()}
    code, output = cluster.helm("upgrade", "pooler", str(CHART), *values, "--set", "databases.app.pool_size=90,settings.query_timeout=30")
    check("an upgrade succeeds", code == 0, output)
    check("it changes the file", "pool_size=30" in ini(cluster) and "query_timeout = 30" in ini(cluster), ini(cluster))
    generation = cluster.get("/apis/apps/v1/namespaces/apps/statefulsets/pooler-pgweir")["metadata"]["generation"]
    until("the controller has looked", lambda: cluster.get(
        "/apis/apps/v1/namespaces/apps/statefulsets/pooler-pgweir")["status"]["observedGeneration"] >= generation)
    check("what a pod can reload replaces none", revision(cluster) == before)
    check("the pods are the same", {name: pod["metadata"]["uid"] for name, pod in pods(cluster).items()} == uids)
    code, output = cluster.helm("upgrade", "pooler", str(CHART), *values, "--set", "settings.workers=3")
    check("an upgrade that needs a restart succeeds", code == 0, output)
    until("a new revision", lambda: revision(cluster) != before)
    check("what a pod cannot reload replaces them", True)
    code, output = cluster.helm("upgrade", "pooler", str(CHART), *values, "--set", "databases.app.pool_size=600")
    check("too many connections are refused", code != 0 and "may open 600 connections" in output, output)
    code, output = cluster.helm("upgrade", "pooler", str(CHART), *values, "--set", "autoscaling.enabled=true,networkPolicy.enabled=true")
    check("an upgrade with autoscaler and network policy succeeds", code == 0, output)
    scaler = cluster.get("/apis/autoscaling/v2/namespaces/apps/horizontalpodautoscalers/pooler-pgweir")
    check("the autoscaler leads to the StatefulSet", scaler["spec"]["scaleTargetRef"]["kind"] == "StatefulSet")
    replicas = cluster.get("/apis/apps/v1/namespaces/apps/statefulsets/pooler-pgweir")["spec"]["replicas"]
    check("replicas stay as they were", replicas == 3, replicas)
    check("a file for each pod that may come", ini(cluster).count("host=pooler-pgweir-") == 6, ini(cluster))
    code, output = cluster.helm("rollback", "pooler", "1")
    check("a rollback succeeds", code == 0, output)
    check("and takes the file back", "pool_size=20" in ini(cluster), ini(cluster))


def deployment(cluster):
    values = ["-f", str(TESTS / "values/cluster.yaml"), "--set", "kind=Deployment,databases.app.pool_size=70"]
    code, output = cluster.helm("install", "second", str(CHART), *values)
    check("a Deployment is installed beside it", code == 0, output)
    check("NOTES say what becomes of cancel requests", "Cancel requests" in output, output)
    until("its pods", lambda: len([name for name in pods(cluster) if name.startswith("second-pgweir-")]) == 3)
    check("its pods come", True)
    code, output = cluster.helm("uninstall", "second")
    check("it is removed", code == 0, output)


def remove(cluster):
    code, output = cluster.helm("uninstall", "pooler")
    check("it can be removed", code == 0, output)
    kinds = {"apis/apps/v1": ["statefulsets", "deployments"], "api/v1": ["services", "configmaps", "serviceaccounts", "pods"],
             "apis/policy/v1": ["poddisruptionbudgets"], "apis/autoscaling/v2": ["horizontalpodautoscalers"],
             "apis/networking.k8s.io/v1": ["networkpolicies"], "apis/monitoring.coreos.com/v1": ["podmonitors", "prometheusrules"],
             "apis/cert-manager.io/v1": ["certificates"]}

    def left():
        names = []
        for group, plurals in kinds.items():
            for plural in plurals:
                items = cluster.get(f"/{group}/namespaces/apps/{plural}")["items"]
                names += [f"{plural}/{item['metadata']['name']}" for item in items if "pgweir" in item["metadata"]["name"]]
        return names

    until("nothing is left", lambda: not left())
    check("nothing is left", True)


def main():
    with tempfile.TemporaryDirectory(prefix="pgweir-cluster-") as folder, Cluster(pathlib.Path(folder)) as cluster:
        version = json.loads(cluster.text("/version"))["gitVersion"]
        print(f"Kubernetes {version}", flush=True)
        cluster.post("/api/v1/namespaces", {"metadata": {"name": "apps", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}})
        for path in CRDS:
            for document in yaml.safe_load_all(pathlib.Path(path).read_text()):
                if document:
                    cluster.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", document)
        for group in ("monitoring.coreos.com", "cert-manager.io"):
            until(group, lambda: cluster.get(f"/apis/{group}/v1"))
        until("the namespace's CA", lambda: cluster.get("/api/v1/namespaces/apps/configmaps/kube-root-ca.crt"))
        install(cluster)
        look(cluster)
        upgrade(cluster)
        deployment(cluster)
        remove(cluster)
    end()


if __name__ == "__main__":
    main()
