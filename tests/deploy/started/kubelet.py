#!/usr/bin/env python3
"""What controllers and the kubelet do and a container engine does not.

kubelet.py lay-out MANIFEST FOLDER ADDRESS…
    makes of the Deployment in MANIFEST a Pod for each ADDRESS, FOLDER/NUMBER/pod.yaml, for `podman kube play`.
    ConfigMaps and Secrets are files in FOLDER/NUMBER/VOLUME, laid out as the kubelet lays them out; variables have
    their values; probes, which it is the kubelet that asks, are lines of FOLDER/probes.
kubelet.py swap FOLDER/NUMBER/VOLUME FILE <TEXT
    puts TEXT into FILE of a ConfigMap, as the kubelet does when the ConfigMap has changed.
"""

import base64
import os
import pathlib
import shutil
import sys
import tempfile

import yaml


def write_volume(folder, files, mode, group):
    """A folder of its own for this state of the files, and a link that leads there: it is replaced in one step."""
    folder.mkdir(parents=True, exist_ok=True)
    state = pathlib.Path(tempfile.mkdtemp(prefix="..", dir=folder))
    state.chmod(0o755)
    for name, text in files.items():
        (state / name).write_bytes(text)
        os.chown(state / name, 0, group)
        (state / name).chmod(mode)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    link = folder / "..data"
    before = link.resolve() if link.is_symlink() else None
    (folder / "..data_tmp").symlink_to(state.name)
    (folder / "..data_tmp").rename(link)
    if before:
        shutil.rmtree(before)


def texts(document):
    plain = base64.b64decode if document["kind"] == "Secret" else str.encode
    return {name: plain(text) for name, text in document["data"].items()}


def lay_out(manifest, folder, addresses):
    documents = [d for d in yaml.safe_load_all(pathlib.Path(manifest).read_text()) if d]
    named = {(d["kind"], d["metadata"]["name"]): d for d in documents}
    deployment = next(d for d in documents if d["kind"] == "Deployment")
    for number, address in enumerate(addresses, 1):
        own = folder / str(number)
        made = pod(deployment, named, own, address, number)
        (own / "pod.yaml").write_text(yaml.safe_dump(made))
    box = next(c for c in deployment["spec"]["template"]["spec"]["containers"] if c["name"] == "glossator")
    ports = {p["name"]: p["containerPort"] for p in box["ports"]}
    asked = {kind: box[f"{kind}Probe"] for kind in ("startup", "readiness", "liveness")}
    (folder / "probes").write_text("".join(
        f"{kind} {ports[probe['httpGet']['port']]} {probe['httpGet']['path']} "
        f"{probe['periodSeconds'] * probe.get('failureThreshold', 3)}\n" for kind, probe in asked.items()))


def pod(deployment, named, own, address, number):
    template = deployment["spec"]["template"]
    spec = yaml.safe_load(yaml.safe_dump(template["spec"]))
    group = spec.get("securityContext", {}).get("fsGroup", 0)
    for volume in spec["volumes"]:
        name = volume.pop("name")
        if "configMap" in volume:
            files, mode = texts(named["ConfigMap", volume["configMap"]["name"]]), 0o644
        else:
            secret = volume["secret"]
            files, mode = texts(named["Secret", secret["secretName"]]), secret["defaultMode"]
            if "items" in secret:
                files = {item["path"]: files[item["key"]] for item in secret["items"]}
        write_volume(own / name, files, mode, group)
        volume.clear()
        volume.update(name=name, hostPath={"path": str(own / name), "type": "Directory"})
    for box in spec["containers"]:
        # Nothing is published: who calls asks the pod at its own address.
        for of_the_kubelet in ("ports", "startupProbe", "readinessProbe", "livenessProbe", "lifecycle"):
            box.pop(of_the_kubelet, None)
        values = {}
        for variable in box.get("env", []):
            values[variable["name"]] = value_of(variable, named, address, values)
        box["env"] = [{"name": name, "value": value} for name, value in values.items()]
        for mount in box["volumeMounts"]:
            # One file of a volume is that file, as it is now.
            if inner := mount.pop("subPath", None):
                spec["volumes"].append({"name": f"{box['name']}-{mount['name']}", "hostPath":
                                        {"path": str((own / mount["name"] / inner).resolve()), "type": "File"}})
                mount["name"] = f"{box['name']}-{mount['name']}"
    name = f"{deployment['metadata']['name']}-{number}"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": template["metadata"]["labels"]}, "spec": spec}


def value_of(variable, named, address, values):
    if "value" in variable:
        text = variable["value"]
        for name, value in values.items():
            text = text.replace(f"$({name})", value)
        return text
    source = variable["valueFrom"]
    if "secretKeyRef" in source:
        return texts(named["Secret", source["secretKeyRef"]["name"]])[source["secretKeyRef"]["key"]].decode()
    assert source["fieldRef"]["fieldPath"] == "status.podIP", source
    return address


if sys.argv[1] == "lay-out":
    lay_out(sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4:])
else:
    volume, changed = pathlib.Path(sys.argv[2]), sys.argv[3]
    files = {path.name: path.read_bytes() for path in volume.iterdir() if not path.name.startswith("..")}
    write_volume(volume, files | {changed: sys.stdin.buffer.read()}, 0o644, 0)
