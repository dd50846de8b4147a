/** The expected state of the cluster and the git host after each step of the pull request. */
import { type KluctlDeployment, readiness } from "./cluster.ts";
import { type Fact, readPresent } from "./present.ts";
import { type PullRequest, statusesOf } from "./pull-request.ts";
import type { PushStory } from "./push-story.ts";
import type { Scene } from "./scene.ts";

export interface Opened {
  readonly pullRequest: PullRequest;
  readonly head: string;
  readonly commentId: number | undefined;
  /** The affected deployment before the pull request. */
  readonly before: KluctlDeployment;
}

export interface Merged {
  readonly commit: string;
  /** The push that the merge causes. */
  readonly story: PushStory;
}

export async function openedFacts(scene: Scene, { pullRequest, head, before }: Opened): Promise<Fact[]> {
  const comments = await pullRequest.comments();
  return [
    ["there is one comment of the server's account", comments.length === 1],
    ["it shows the new image of api in shop/staging", shows(comments[0]?.body, "registry.example/api:2.4.0")],
    ...(await statusFacts(scene, head)),
    ...(await untouchedFacts(scene, before)),
  ];
}

export async function pushedFacts(scene: Scene, opened: Opened, head: string): Promise<Fact[]> {
  const { pullRequest, head: older, commentId, before } = opened;
  const comments = await pullRequest.comments();
  const [first] = comments;
  const statuses = await statusesOf(scene.shop, older);
  const has = (text: string) => shows(first?.body, text);
  return [
    ["the comment is the same one, by its id", comments.length === 1 && first?.id === commentId],
    ["it shows api and the ConfigMap settings", has("registry.example/api:2.4.0") && has("FEATURE_CHECKOUT")],
    ["it is about the newer commit", has(head.slice(0, 7)) && !has(older.slice(0, 7))],
    ["nothing is pending beside the older commit", statuses.every(({ state }) => state !== "pending")],
    ...(await statusFacts(scene, head)),
    ...(await untouchedFacts(scene, before)),
  ];
}

export async function mergedFacts(
  { cluster, shop }: Scene,
  { pullRequest, commentId }: Opened,
  { commit, story }: Merged,
): Promise<Fact[]> {
  const present = readPresent(cluster);
  const [staging, settings, main, statuses, comments] = await Promise.all([
    present.kluctlDeployment("staging"),
    present.settings("staging"),
    shop.head("main"),
    statusesOf(shop, commit),
    pullRequest.comments(),
  ]);
  const api = { staging: await present.image("staging", "api"), prod: await present.image("prod", "api") };
  const [first] = comments;
  return [
    ["main on Gitea is the merge", main?.id === commit],
    ["it was queued for shop/staging alone", story.targets.join() === "staging"],
    ["shop/staging is Ready at the merge", readiness(staging, commit) === "ready"],
    ["api in shop-staging has the image 2.4.0", api.staging === "registry.example/api:2.4.0"],
    ["the checkout is off in shop-staging", settings["FEATURE_CHECKOUT"] === "off"],
    ["api in shop-prod still has the image 2.3.0", api.prod === "registry.example/api:2.3.0"],
    ["the same comment says that it is merged", first?.id === commentId && shows(first?.body, "merged into")],
    ["the statuses of the merge say that it is deployed", statuses.every(({ state }) => state === "success")],
  ];
}

async function statusFacts({ shop }: Scene, head: string): Promise<Fact[]> {
  const states = new Map((await statusesOf(shop, head)).map(({ context, state }) => [context, state]));
  return ["towline", "towline/shop/staging"].map((name) => [
    `the status ${name} of ${head.slice(0, 7)} is a success`,
    states.get(name) === "success",
  ]);
}

/** A preview changes neither the deployed objects nor the deployment's status. */
async function untouchedFacts({ cluster }: Scene, before: KluctlDeployment): Promise<Fact[]> {
  const present = readPresent(cluster);
  const [now, image] = [await present.kluctlDeployment("staging"), await present.image("staging", "api")];
  return [
    ["api in shop-staging still has the image 2.3.0", image === "registry.example/api:2.3.0"],
    ["the status of shop/staging is as it was", JSON.stringify(now.status) === JSON.stringify(before.status)],
  ];
}

function shows(body: string | undefined, text: string): boolean {
  return body?.includes(text) ?? false;
}
