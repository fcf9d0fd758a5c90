#!/usr/bin/env python3
"""Read deploy/ as its readers would: extract.py REPOSITORY OUT_FOLDER.

Writes what each file would start (`NAME.args`, an argument a line) and the
configuration in the Kubernetes manifest, and reports what does not fit together.
"""

import hashlib
import json
import pathlib
import re
import shlex
import sys

import helm_python as helm
import kubernetes_validate
import yaml

import verdict
from verdict import report

root, out = map(pathlib.Path, sys.argv[1:])
deploy = root / "deploy"


def arguments(name, words):
    (out / f"{name}.args").write_text("".join(f"{word}\n" for word in words))


def valid(where, document):
    if document["apiVersion"].startswith("monitoring.coreos.com/"):
        return    # not of Kubernetes itself
    try:
        kubernetes_validate.validate(document, "1.31", strict=True)
        why = None
    except Exception as error:
        why = str(error)
    report(f"{where}: {document['kind']} is valid for Kubernetes 1.31", why is None, why)


# -- Containerfile
lines = re.sub(r"\\\n", " ", (deploy / "Containerfile").read_text()).splitlines()
said = {}
for line in lines:
    if line and not line.startswith("#"):
        keyword, _, rest = line.partition(" ")
        said.setdefault(keyword, []).append(rest.strip())
entrypoint, command = json.loads(said["ENTRYPOINT"][-1]), json.loads(said["CMD"][-1])
arguments("container", entrypoint[1:] + command)
installed = next(rest for rest in said["COPY"] if rest.startswith("--from=build")).split()[-1]
report("Containerfile: starts the file that it installs", entrypoint[0] == installed, f"{entrypoint[0]} is not {installed}")
# Both say it with a variable for the target, each its own.
built = (
    r'CARGO_BUILD_RUSTFLAGS="-C target-feature=\+crt-static -C link-arg=-Wl,-z,pack-relative-relocs" [\\\s]*'
    r'cargo build --profile dist --locked --target "\$\w+" --bin glossator'
)
report(
    "Containerfile: builds what the CI builds",
    any(re.search(built, rest) for rest in said["RUN"]) and re.search(built, (root / ".ci/run").read_text()),
    said["RUN"],
)
report("Containerfile: nothing is in the image beside it", "distroless/static" in said["FROM"][-1], said["FROM"][-1])
toolchain = re.search(r"^rust-version = \"(\d+)\.(\d+)", (root / "Cargo.toml").read_text(), re.M)
image = re.match(r"rust:(\d+)\.(\d+)", said["FROM"][0])
report(
    "Containerfile: its Rust is new enough for Cargo.toml",
    toolchain is None or tuple(map(int, image.groups())) >= tuple(map(int, toolchain.groups())),
    f"{said['FROM'][0]} against {toolchain and toolchain[0]}",
)
report("Containerfile: has a health check", said.get("HEALTHCHECK", [""])[-1].endswith('CMD ["/usr/local/bin/glossator", "health"]'), said.get("HEALTHCHECK"))
report("Containerfile: does not run as root", said.get("USER", ["0"])[-1].split(":")[0] not in ("0", "root"), said.get("USER"))

# -- systemd
unit = (deploy / "glossator.service").read_text()
start = re.findall(r"^ExecStart=(.*)$", unit, re.M)
report("systemd: one ExecStart", len(start) == 1, start)
arguments("systemd", shlex.split(start[0])[1:])
listens = re.findall(r"^ListenStream=(.*)$", (deploy / "glossator.socket").read_text(), re.M)
report("systemd: the socket is where the program listens by itself", listens == ["127.0.0.1:8080"], listens)
report("systemd: the service takes it", "Sockets=glossator.socket" in unit, unit)
prevented = re.findall(r"^RestartPreventExitStatus=(.*)$", unit, re.M)
report("systemd: what no second try helps is not tried again", prevented == ["2 78"], prevented)

# -- Kubernetes
documents = [d for d in yaml.safe_load_all((deploy / "kubernetes.yaml").read_text()) if d]
by_kind = {d["kind"]: d for d in documents}
wanted = {"ConfigMap", "Deployment", "Service", "HorizontalPodAutoscaler", "NetworkPolicy"}
report("kubernetes: what it is made of", set(by_kind) == wanted, list(by_kind))
for document in documents:
    valid("kubernetes", document)
config, deployment, service = by_kind["ConfigMap"], by_kind["Deployment"], by_kind["Service"]
(out / "kubernetes.yaml").write_text(config["data"]["glossator.yaml"])
pod = deployment["spec"]["template"]
report(
    "kubernetes: selectors meet the pod's labels",
    deployment["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    and service["spec"]["selector"].items() <= pod["metadata"]["labels"].items(),
)
containers = {c["name"]: c for c in pod["spec"]["containers"]}
glossator = containers["glossator"]
arguments("kubernetes", glossator["args"])
ports = {p["name"]: p["containerPort"] for p in glossator["ports"]}
listen = yaml.safe_load(config["data"]["glossator.yaml"])["server"]["listen"]
report("kubernetes: listens on the port that the pod names", listen == f"0.0.0.0:{ports['http']}", listen)
report("kubernetes: the Service leads there", service["spec"]["ports"][0]["targetPort"] == "http")
probes = [glossator[kind]["httpGet"] for kind in ("startupProbe", "readinessProbe", "livenessProbe")]
report("kubernetes: probes ask the admin port", all(p["port"] == "admin" for p in probes), probes)
admin = yaml.safe_load(config["data"]["glossator.yaml"])["admin"]["listen"]
report("kubernetes: which is the one that it listens on", admin == f"0.0.0.0:{ports['admin']}", admin)
named = {port["port"] for rule in by_kind["NetworkPolicy"]["spec"]["ingress"] for port in rule["ports"]}
report("kubernetes: the NetworkPolicy names the pod's ports", named == set(ports), named)
token = yaml.safe_load(config["data"]["glossator.yaml"])["admin"]["token"]
given = {"${%s}" % e["name"] for e in glossator["env"] if "secretKeyRef" in e["valueFrom"]}
report("kubernetes: which asks for a token of a Secret", token in given, (token, given))
manifest = (deploy / "kubernetes.yaml").read_text()
job = yaml.safe_load(re.sub(r"^# {5}", "", manifest[manifest.index("#     scrape_configs:"):], flags=re.M))["scrape_configs"][0]
report("kubernetes: Prometheus shows it", "credentials_file" in job["authorization"], job)
port_regex = f"{pod['metadata']['labels']['app']};admin"
report("kubernetes: and is told the right port", job["relabel_configs"][0]["regex"] == port_regex, job)
summed = hashlib.sha256(config["data"]["glossator.yaml"].encode()).hexdigest()
found = pod["metadata"]["annotations"]["checksum/config"]
report("kubernetes: another configuration replaces the pods", found == summed, f"{found} is not {summed}")
requested = {name: c.get("resources", {}).get("requests", {}).get("cpu") for name, c in containers.items()}
report("kubernetes: the HPA finds a CPU request of every container", all(requested.values()), requested)
report("kubernetes: nobody but the HPA says how many", "replicas" not in deployment["spec"], deployment["spec"].get("replicas"))
settings = yaml.safe_load(config["data"]["glossator.yaml"])["server"]
seconds = {key: int(settings[key].removesuffix("s")) for key in ("shutdown_delay", "shutdown_timeout")}
before = glossator["lifecycle"]["preStop"]["sleep"]["seconds"]
grace = pod["spec"]["terminationGracePeriodSeconds"]
report("kubernetes: a pod is given the time that it takes to end", grace > before + sum(seconds.values()) + 5, (grace, before, seconds))
scaled = by_kind["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"]
report("kubernetes: what is scaled is there", scaled == deployment["metadata"]["name"], scaled)
(out / "kubernetes.probes").write_text("".join(f"{path}\n" for path in sorted({p["path"] for p in probes})))
volumes = {v["name"]: v for v in pod["spec"]["volumes"]}
mounts = [m for c in containers.values() for m in c["volumeMounts"]]
report("kubernetes: every mount has its volume", all(m["name"] in volumes for m in mounts), mounts)
report(
    "kubernetes: mounted files are in the ConfigMap",
    all(m.get("subPath", "glossator.yaml") in config["data"] for m in mounts)
    and all(v["configMap"]["name"] == config["metadata"]["name"] for v in volumes.values()),
)
# (A pod's containers share loopback; those of compose do not.)
said_there, said_here = (re.sub(r"^ *#.*", "", text, flags=re.M) for text in
                         (config["data"]["legacy-nginx.conf"], (deploy / "legacy-nginx.conf").read_text()))
report(
    "kubernetes: the legacy server is the one of deploy/legacy-nginx.conf, for its pod alone",
    said_there == said_here.replace("listen 8081;", "listen 127.0.0.1:8081;"), said_there,
)

# -- compose: alone, and three with a store behind a balancer
for name in ["compose", "compose-replicas"]:
    compose = yaml.safe_load((deploy / f"{name}.yaml").read_text())
    services = compose["services"]
    service = services["glossator"]
    arguments(name, service["command"])
    sources = [v.split(":")[0] for s in services.values() for v in s.get("volumes", [])]
    missing = [s for s in sources if not (deploy / s).exists()]
    report(f"{name}: whatever is mounted exists", not missing, missing)
    containerfile = deploy / service["build"]["context"] / service["build"]["dockerfile"]
    report(f"{name}: builds from the Containerfile", containerfile.is_file(), containerfile)
    published = [p for s in services.values() for p in s.get("ports", [])]
    report(f"{name}: publishes on loopback only", published and all(p.startswith("127.0.0.1:") for p in published), published)
    named = {d for s in services.values() for d in s.get("depends_on", [])}
    report(f"{name}: what is waited for is there", named <= set(services), named)
    # A file that is mounted by itself is not seen to change.
    mounted = [v.split(":")[:2] for v in service["volumes"]]
    report(f"{name}: the configuration is a folder", [(deploy / source).is_dir() for source, _ in mounted] == [True], mounted)
    report(f"{name}: has a health check of its own", service.get("healthcheck", {}).get("test", [])[:1] == ["CMD"], service)
    restricted = service["read_only"] and service["cap_drop"] == ["ALL"] and service["security_opt"]
    report(f"{name}: can write nothing and become nobody", bool(restricted), service)

# -- Helm: by Helm's own libraries
chart_folder = deploy / "helm" / "glossator"
findings = helm.lint(chart_folder, values={"files": {"glossator.yaml": "routes: {}"}})
# 1 is advice, 2 a warning, 3 an error.
messages = [finding for finding in findings["messages"] if finding["severity"] > 1]
report(f"helm: lint with Helm {helm.helm_sdk_version()} finds nothing", not messages, messages)
wanted = {
    "standalone": {"ConfigMap", "Deployment", "Service", "HorizontalPodAutoscaler", "NetworkPolicy", "PodDisruptionBudget",
                   "ServiceAccount", "ServiceMonitor"},
    "sidecar": {"ConfigMap", "Deployment", "Service", "NetworkPolicy", "Secret", "ServiceAccount"},
}
with helm.Chart.load(chart_folder) as chart:
    for example, kinds in wanted.items():
        values = yaml.safe_load((chart_folder / "examples" / f"{example}.yaml").read_text())
        chart.validate_schema(values)
        files = chart.render(values, name="weather", namespace="prod")
        made = [d for name, text in files.items() if not name.endswith("NOTES.txt") for d in yaml.safe_load_all(text) if d]
        (out / f"helm-{example}.rendered.yaml").write_text(yaml.safe_dump_all(made))
        report(f"helm, {example}: what it is made of", {d["kind"] for d in made} == kinds, [d["kind"] for d in made])
        for document in made:
            valid(f"helm, {example}", document)
        of = {d["kind"]: d for d in made if not d["metadata"]["name"].endswith("-admin")}
        pod = of["Deployment"]["spec"]["template"]
        box = pod["spec"]["containers"][0]
        arguments(f"helm-{example}", box["args"])
        settings = {e["name"]: e.get("value", "") for e in box["env"]}
        token = next(e["valueFrom"]["secretKeyRef"] for e in box["env"] if e["name"] == "GLOSSATOR__ADMIN__TOKEN")
        secrets = {d["metadata"]["name"]: d["data"] for d in made if d["kind"] == "Secret"}
        secrets |= {values["admin"]["existingSecret"]: {"token": ""}} if "admin" in values else {}
        has_key = token["key"] in secrets[token["name"]]
        report(f"helm, {example}: the admin port asks for a token of a Secret", has_key, token)
        if monitor := of.get("ServiceMonitor"):
            shown = monitor["spec"]["endpoints"][0]["authorization"]["credentials"]
            report(f"helm, {example}: and the ServiceMonitor shows it", shown == token, shown)
        (out / f"helm-{example}.hosts").write_text(settings["GLOSSATOR__SERVER__ALLOWED_HOSTS"])
        folder = out / f"helm-{example}"
        folder.mkdir()
        for name, text in of["ConfigMap"]["data"].items():
            (folder / name).write_text(text)
        restricted = {
            "runAsNonRoot": True, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
        }
        report(
            f"helm, {example}: restricted, in the words of the Pod Security Standards",
            restricted.items() <= box["securityContext"].items() and pod["spec"]["automountServiceAccountToken"] is False,
            box["securityContext"],
        )
        mounted = {m["mountPath"] for m in box["volumeMounts"]}
        data = "".join(of["ConfigMap"]["data"].values())
        files_named = set(re.findall(r"file:(/[-\w/]+)/", data))
        report(f"helm, {example}: files that the configuration names are mounted", files_named <= mounted, (files_named, mounted))
        ports = {p["name"]: p["containerPort"] for p in box["ports"]}
        listens = {settings["GLOSSATOR__SERVER__LISTEN"], settings["GLOSSATOR__ADMIN__LISTEN"]}
        report(f"helm, {example}: listens on the ports that the pod names", listens == {f"0.0.0.0:{p}" for p in ports.values()}, listens)
        policy = {p["port"] for rule in of["NetworkPolicy"]["spec"]["ingress"] for p in rule["ports"]}
        report(f"helm, {example}: the NetworkPolicy names them", policy == set(ports), policy)
        report(f"helm, {example}: another configuration replaces the pods", "checksum/config" in pod["metadata"]["annotations"], pod["metadata"])
        requested = {c["name"]: c.get("resources", {}).get("requests", {}).get("cpu") for c in pod["spec"]["containers"]}
        report(f"helm, {example}: every container requests CPU", all(requested.values()), requested)
        labels = pod["metadata"]["labels"].items()
        selectors = [of["Deployment"]["spec"]["selector"]["matchLabels"], of["Service"]["spec"]["selector"]]
        report(f"helm, {example}: selectors meet the pod's labels", all(s.items() <= labels for s in selectors), selectors)
    # As few values as there can be, and every value otherwise than it is by itself.
    otherwise = yaml.safe_load((root / "tests/deploy/values.yaml").read_text())
    untouched = [name for name, value in otherwise.items() if value == chart.values.get(name)]
    report("helm: otherwise means every value", set(otherwise) | {"files"} == set(chart.values) and not untouched, untouched)
    for name, values in {"as it is": {"files": {"glossator.yaml": "routes: {}"}}, "otherwise": otherwise}.items():
        chart.validate_schema(values)
        for text in chart.render(values, name="weather", namespace="prod").values():
            for document in yaml.safe_load_all(text) if text.lstrip().startswith(("apiVersion", "#")) else []:
                valid(f"helm, {name}", document)
    for wrong, values in {
        "a key that is none": {"files": {"a.yaml": ""}, "replicaCount": 3},
        "a port that is none": {"files": {"a.yaml": ""}, "service": {"port": 0}},
    }.items():
        try:
            chart.validate_schema(values)
            report(f"helm: values with {wrong} are refused", False, "they are not")
        except helm.HelmError:
            report(f"helm: values with {wrong} are refused", True)
    standalone = yaml.safe_load((chart_folder / "examples" / "standalone.yaml").read_text())
    for wrong, values, said in [
        ("a store and no secret", {"sessionSecret": {"existingSecret": ""}}, "`sharedState` needs `sessionSecret`"),
        ("a store beside another's ConfigMap", {"existingConfigMap": "mine"}, "write `shared_state` in a file of that ConfigMap"),
    ]:
        try:
            chart.render(standalone | values, name="weather", namespace="prod")
            report(f"helm: {wrong} is refused", False, "it renders")
        except helm.HelmError as error:
            report(f"helm: {wrong} is refused", said in str(error), error)
    try:
        chart.render({}, name="weather", namespace="prod")
        report("helm: without a configuration it says so", False, "it renders")
    except helm.HelmError as error:
        report("helm: without a configuration it says so", "there is no configuration" in str(error), error)
    values = chart.values
    described = set(chart.schema["properties"]) - {"global"}
    report("helm: the schema knows every value, and no other", described == set(values), described ^ set(values))
versions = [yaml.safe_load((chart_folder / "Chart.yaml").read_text())["appVersion"]]
versions += re.findall(r"^version = \"(.*)\"", (root / "Cargo.toml").read_text(), re.M)[:1]
report("helm: its appVersion is the program's", len(set(versions)) == 1, versions)

# -- Alerts and dashboard: every metric that they name
alerts = (deploy / "prometheus-alerts.yaml").read_text()
board = json.loads((deploy / "grafana-dashboard.json").read_text())
expressions = [rule["expr"] for group in yaml.safe_load(alerts)["groups"] for rule in group["rules"]]
expressions += [target["expr"] for panel in board["panels"] for target in panel["targets"]]
metrics = sorted({name for expression in expressions for name in re.findall(r"(?:glossator|process)_\w+", expression)})
(out / "metrics.names").write_text("".join(f"{name}\n" for name in metrics))
ids = [panel["id"] for panel in board["panels"]]
report("grafana: every panel has an id of its own", len(ids) == len(set(ids)), ids)

verdict.end()
