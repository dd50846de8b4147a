/**
 * Enforces NetworkPolicies with Cilium's agent, whose BPF programs run on each pod's interface. The plugin before it in
 * the chain creates the interface, as on nodes where a cloud provider connects the pods, and Services stay with
 * kube-proxy.
 */
import { mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { parse } from "yaml";
import { createAsAdmin } from "../parts/control-plane.ts";
import type { ControlPlaneFiles } from "../parts/control-plane-files.ts";
import type { ToolPaths } from "../tools.ts";

export const policyTools = ["cilium-agent", "cilium-cni", "clang", "bpftool", "ipset"] as const;

export interface PolicyOptions {
  readonly tools: ToolPaths<(typeof policyTools)[number]>;
  readonly dir: string;
  readonly nodeName: string;
  /** Address range of all pods. */
  readonly podRange: string;
}

/** The last plugin in the chain of the network. */
export const policyPlugin = { type: "cilium-cni", "chaining-mode": "generic-veth" };

/** Creates the CRDs that the agent expects to exist. */
export async function defineKinds(
  { tools }: Pick<PolicyOptions, "tools">,
  server: string,
  files: ControlPlaneFiles,
): Promise<void> {
  const crds = join(dirname(tools["cilium-agent"]), "pkg/k8s/apis/cilium.io/client/crds");
  const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
  for (const version of await readdir(crds)) {
    for (const name of await readdir(join(crds, version))) {
      await createAsAdmin(server, files, path, parse(await readFile(join(crds, version, name), "utf8")) as object);
    }
  }
}

/** Returns the agent's command, arguments and additional environment. */
export async function prepareAgent(options: PolicyOptions, kubeconfig: string) {
  const { tools, dir, nodeName, podRange } = options;
  const [lib, bin, proc] = [join(dir, "cilium"), join(dir, "cilium-bin"), join(dir, "cilium-proc")];
  for (const one of [lib, bin, proc]) await mkdir(one);
  await symlink(join(dirname(tools["cilium-agent"]), "bpf"), join(lib, "bpf"));
  // The agent calls them by these names. Warnings that newer compilers introduced must not be errors.
  for (const name of ["bpftool", "ipset"] as const) await symlink(tools[name], join(bin, name));
  const compiler = `#!/bin/sh\nexec '${tools.clang}' "$@" -Wno-error\n`;
  await writeFile(join(bin, "clang"), compiler, { mode: 0o755 });
  const args = [
    ...["--mount", "bash", join(import.meta.dirname, "with-modules.sh"), proc, tools["cilium-agent"]],
    `--k8s-kubeconfig-path=${kubeconfig}`,
    `--lib-dir=${lib}`,
    "--state-dir=/run/cilium",
    "--cni-chaining-mode=generic-veth",
    "--cni-exclusive=false",
    "--enable-ipv6=false",
    "--enable-ipv4-masquerade=false",
    "--enable-endpoint-routes",
    "--enable-local-node-route=false",
    "--routing-mode=native",
    `--ipv4-native-routing-cidr=${podRange}`,
    "--identity-allocation-mode=crd",
    "--ipam=kubernetes",
    "--kube-proxy-replacement=false",
    "--enable-host-legacy-routing",
    "--allow-localhost=always", // for the kubelet's probes
    ...["l7-proxy", "hubble", "health-checking", "endpoint-health-checking"].map((name) => `--enable-${name}=false`),
  ];
  const PATH = [bin, process.env["PATH"]].join(delimiter);
  return { command: "unshare", args, env: { PATH, K8S_NODE_NAME: nodeName } };
}
