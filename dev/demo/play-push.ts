/** The first part: a push that is deployed. */
import { readiness } from "./cluster.ts";
import { confirm, type Fact, readPresent } from "./present.ts";
import { formatChanged, type PushStory } from "./push-story.ts";
import { pushRelease, type Release } from "./repository.ts";
import { cause, type PushScene } from "./scene.ts";
import { moment, tellTimeLine } from "./time-line.ts";

const release: Release = {
  file: "versions.yaml",
  from: "frontend: 1.4.2",
  to: "frontend: 1.5.0",
  message: "Raise frontend to 1.5.0",
};

export async function playPush(scene: PushScene): Promise<void> {
  const push = () => pushRelease(scene.shop, release);
  const { done: commit, doneAt, story } = await cause(push, scene.pushes);
  scene.tell(titleOf(commit, release.message));
  await tellTimeLine([moment(doneAt, "git push done"), story.until(commit)], doneAt, scene.tell);
  tellChanges(story, scene.tell);
  if (scene.check) confirm("The push did not arrive everywhere", await findFacts(scene, story, commit), scene.tell);
}

/** Prints the time line of a push that the user made. */
export async function tellPush(
  story: PushStory,
  commit: string,
  message: string,
  startedAt: number,
  tell: PushScene["tell"],
): Promise<void> {
  tell(titleOf(commit, message));
  await tellTimeLine([story.until(commit)], startedAt, tell);
  tellChanges(story, tell);
}

function titleOf(commit: string, message: string): string {
  return `\npush ${commit.slice(0, 7)} ${JSON.stringify(message.split("\n")[0])}`;
}

export function tellChanges({ changed }: PushStory, tell: PushScene["tell"]): void {
  if (changed.length > 0) tell();
  for (const one of changed) formatChanged(one).forEach((line) => tell(line));
}

async function findFacts({ cluster, shop }: PushScene, story: PushStory, commit: string): Promise<Fact[]> {
  const present = readPresent(cluster);
  const [staging, prod, main, released] = await Promise.all([
    present.kluctlDeployment("staging"),
    present.kluctlDeployment("prod"),
    shop.head("main"),
    shop.head("release"),
  ]);
  const images = { staging: await present.image("staging", "frontend"), prod: await present.image("prod", "frontend") };
  const seen = new Set(story.steps.map(({ what }) => what));
  return [
    ["the push was queued for shop/staging alone", story.targets.join() === "staging"],
    ["fetching and applying were seen", ["fetched", "applied"].every((what) => seen.has(what))],
    ["main on the git host is the pushed commit", main?.id === commit],
    ["shop/staging is Ready at that commit", readiness(staging, commit) === "ready"],
    ["frontend in shop-staging has the image 1.5.0", images.staging === "registry.example/frontend:1.5.0"],
    ["shop/prod is Ready where release is on the git host", readiness(prod, released?.id ?? "") === "ready"],
    ["frontend in shop-prod still has the image 1.4.2", images.prod === "registry.example/frontend:1.4.2"],
  ];
}
