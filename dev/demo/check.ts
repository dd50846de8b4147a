/** Whether the push really arrived everywhere, asked anew of the cluster and of the git host. */
import type { DemoCluster, KluctlDeployment, KubernetesObject } from "./cluster.ts";
import { namespace, namespaceOf, readiness } from "./cluster.ts";
import type { ShopRepository } from "./repository.ts";
import type { Story } from "./story.ts";

export interface Outcome {
  readonly cluster: DemoCluster;
  readonly shop: ShopRepository;
  readonly story: Story;
  /** What was pushed to main. */
  readonly commit: string;
}

/** Returns what was found, a line each; throws with everything that is not as it should be. */
export async function checkOutcome({ cluster, shop, story, commit }: Outcome): Promise<string[]> {
  const read = async <T extends KubernetesObject>(path: string) =>
    (await cluster.client.request({ method: "GET", path })) as T;
  const kluctlDeployment = (name: string) =>
    read<KluctlDeployment>(`/apis/gitops.kluctl.io/v1beta1/namespaces/${namespace}/kluctldeployments/${name}`);
  const frontend = async (target: "staging" | "prod") =>
    imageOf(await read(`/apis/apps/v1/namespaces/${namespaceOf(target)}/deployments/frontend`));

  const [staging, prod, main, release] = await Promise.all([
    kluctlDeployment("staging"),
    kluctlDeployment("prod"),
    shop.head("main"),
    shop.head("release"),
  ]);
  const seen = new Set(story.steps.map(({ what }) => what));
  const found: [fact: string, holds: boolean][] = [
    ["the delivery was accepted and queued for shop/staging alone", story.targets.join() === "staging"],
    ["fetching, comparing and applying were seen", ["fetched", "compared", "applied"].every((what) => seen.has(what))],
    ["main on Gitea is the pushed commit", main?.id === commit],
    ["shop/staging is Ready at that commit", readiness(staging, commit) === "ready"],
    ["frontend in shop-staging has the image 1.5.0", (await frontend("staging")) === "registry.example/frontend:1.5.0"],
    ["shop/prod is Ready where release is on Gitea", readiness(prod, release?.id ?? "") === "ready"],
    ["frontend in shop-prod still has the image 1.4.2", (await frontend("prod")) === "registry.example/frontend:1.4.2"],
  ];
  const wrong = found.filter(([, holds]) => !holds).map(([fact]) => `\n  not so: ${fact}`);
  if (wrong.length > 0) throw new Error(`The push did not arrive everywhere:${wrong.join("")}`);
  return found.map(([fact]) => `ok  ${fact}`);
}

function imageOf({ spec }: KubernetesObject): string | undefined {
  const { template } = spec as { template?: { spec?: { containers?: { image?: string }[] } } };
  return template?.spec?.containers?.[0]?.image;
}
