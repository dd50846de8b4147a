/** Reads the present state from the API server, independently of what the demo has observed before. */
import {
  type DemoCluster,
  type KluctlDeployment,
  type KubernetesObject,
  namespace,
  namespaceOf,
  type targets,
} from "./cluster.ts";

export type Target = (typeof targets)[number];
export type Fact = readonly [what: string, holds: boolean];

export interface Present {
  kluctlDeployment(target: Target): Promise<KluctlDeployment>;
  /** Image of the first container of one of the shop's Deployments. */
  image(target: Target, name: "frontend" | "api"): Promise<string | undefined>;
  /** Data of the shop's ConfigMap. */
  settings(target: Target): Promise<Readonly<Record<string, string>>>;
}

export function readPresent({ client }: DemoCluster): Present {
  const read = async <T extends KubernetesObject>(path: string) => (await client.request({ method: "GET", path })) as T;
  return {
    kluctlDeployment: (target) =>
      read(`/apis/gitops.kluctl.io/v1beta1/namespaces/${namespace}/kluctldeployments/${target}`),
    async image(target, name) {
      const { spec } = await read(`/apis/apps/v1/namespaces/${namespaceOf(target)}/deployments/${name}`);
      const { template } = spec as { template?: { spec?: { containers?: { image?: string }[] } } };
      return template?.spec?.containers?.[0]?.image;
    },
    async settings(target) {
      return (await read(`/api/v1/namespaces/${namespaceOf(target)}/configmaps/settings`)).data ?? {};
    },
  };
}

/** Prints each fact; throws with all facts that do not hold. */
export function confirm(title: string, facts: readonly Fact[], tell: (line?: string) => void): void {
  const wrong = facts.filter(([, holds]) => !holds).map(([fact]) => `\n  not true: ${fact}`);
  if (wrong.length > 0) throw new Error(`${title}:${wrong.join("")}`);
  tell();
  for (const [fact] of facts) tell(`  ok  ${fact}`);
}
