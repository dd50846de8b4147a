/** Options that select the cluster and namespaces, and reads of KluctlDeployments. */
import { type Command, Option } from "commander";
import type { Config } from "../config.ts";
import { parseDeployment } from "../apis/kluctl/custom-resource.ts";
import type { AnyDeployment } from "../model.ts";
import { loadFromFlags } from "./configuration.ts";

export interface ClusterFlags {
  readonly namespace?: readonly string[];
  readonly allNamespaces?: true;
  readonly config?: string;
  readonly kubeconfig?: string;
  readonly context?: string;
}

export function withClusterFlags(command: Command): Command {
  return command
    .option("-c, --config <file>", "The server's configuration file, for its cluster and namespaces (TOWLINE_CONFIG)")
    .option("--kubeconfig <file>", "Kubeconfig; default: KUBECONFIG, ~/.kube/config or the pod's service account")
    .option("--context <name>", "Kubeconfig context; default: the current one")
    .option("-n, --namespace <name>", "Only this namespace; can be repeated", addTo)
    .addOption(
      new Option("-A, --all-namespaces", "All namespaces, including those that no server watches").conflicts(
        "namespace",
      ),
    );
}

function addTo(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}

export interface ClusterConfig {
  readonly config: Config;
  /** Options of the Kubernetes client. */
  readonly kubernetes: Config["kubernetes"] & { readonly untilAnsweredMs: number };
  /** Selected namespaces. Empty: all. */
  readonly namespaces: readonly string[];
  /** Whether the user named them, so that each has to exist. */
  readonly areNamed: boolean;
  /** Namespaces that the server watches, as configured. Empty: all. */
  readonly watched: readonly string[];
}

/** Short, because the user waits for the command. */
const untilAnsweredMs = 5_000;

export function clusterConfig(
  env: Readonly<Record<string, string | undefined>>,
  { config: file, kubeconfig, context, namespace, allNamespaces }: ClusterFlags,
): ClusterConfig {
  const flags = { config: file, kubernetesKubeconfig: kubeconfig, kubernetesContext: context };
  const { config } = loadFromFlags(env, flags);
  const { kubernetes } = config;
  const { namespaces: watched } = kubernetes;
  const namespaces = allNamespaces ? [] : (namespace ?? watched);
  const areNamed = namespace !== undefined;
  return { config, kubernetes: { ...kubernetes, untilAnsweredMs }, namespaces, areNamed, watched };
}

/** Why the server ignores deployments in this namespace; `undefined` if it does not. */
export function whyUnwatched(namespace: string, { watched }: Pick<ClusterConfig, "watched">): string | undefined {
  if (watched.length === 0 || watched.includes(namespace)) return undefined;
  return `no server watches namespace ${namespace}: kubernetes.namespaces is ${watched.join(", ")}`;
}

export interface FoundDeployment {
  readonly deployment: AnyDeployment;
  /** The resource as the API server returned it. */
  readonly resource: Readonly<Record<string, unknown>>;
}

export function byName(a: FoundDeployment, b: FoundDeployment): number {
  return orderOf(a) < orderOf(b) ? -1 : 1;
}

export function toFound(resource: unknown): FoundDeployment[] {
  const deployment = parseDeployment(resource);
  return deployment === undefined ? [] : [{ deployment, resource: resource as Readonly<Record<string, unknown>> }];
}

function orderOf({ deployment: { key } }: FoundDeployment): string {
  return `${key.namespace}\0${key.name}`;
}
