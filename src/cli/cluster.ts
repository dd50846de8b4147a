/** How commands find the cluster. */
import type { Command } from "commander";
import type { Config } from "../config.ts";
import { loadFromFlags } from "./configuration.ts";

export interface ClusterFlags {
  readonly namespace?: readonly string[];
  readonly config?: string;
  readonly kubeconfig?: string;
  readonly context?: string;
}

export function withClusterFlags(command: Command): Command {
  return command
    .option("-c, --config <file>", "the server's configuration file, for its cluster and namespaces (TOWLINE_CONFIG)")
    .option("--kubeconfig <file>", "of the cluster; KUBECONFIG, ~/.kube/config or the pod's own if there is none")
    .option("--context <name>", "of the kubeconfig, instead of its current one")
    .option("-n, --namespace <names...>", "only those of these namespaces");
}

export interface ClusterConfig {
  readonly kubernetes: Config["kubernetes"];
  /** Empty: all. */
  readonly namespaces: readonly string[];
}

export function clusterConfig(
  env: Readonly<Record<string, string | undefined>>,
  { config: file, kubeconfig, context, namespace }: ClusterFlags,
): ClusterConfig {
  const flags = { config: file, kubernetesKubeconfig: kubeconfig, kubernetesContext: context };
  const { config } = loadFromFlags(env, flags);
  const { kubernetes } = config;
  return { kubernetes, namespaces: namespace ?? kubernetes.namespaces };
}
