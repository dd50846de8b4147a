/** The second part: a pull request shows what merging it would change, receives another push, and is merged. */
import { tellChanges } from "./play-push.ts";
import { confirm, readPresent } from "./present.ts";
import { type PreviewStory, watchComment, watchStatuses } from "./preview-story.ts";
import { openPullRequest } from "./pull-request.ts";
import { mergedFacts, type Opened, openedFacts, pushedFacts } from "./pull-request-facts.ts";
import { followMain, pushRelease, type Release } from "./repository.ts";
import { cause, type Scene } from "./scene.ts";
import { moment, type Strand, tellTimeLine } from "./time-line.ts";

const branch = "raise-api";
const proposed: Release = {
  file: "versions.yaml",
  from: "api: 2.3.0",
  to: "api: 2.4.0",
  message: "Raise api to 2.4.0",
};
const added: Release = {
  file: "vars/staging.yaml",
  from: 'checkout: "on"',
  to: 'checkout: "off"',
  message: "Switch the checkout off in staging",
};

export async function playPullRequest(scene: Scene): Promise<void> {
  const opened = await open(scene);
  await pushAgain(scene, opened);
  await merge(scene, opened);
  await followMain(scene.shop);
}

async function open(scene: Scene): Promise<Opened> {
  const { cluster, shop, previews, check, tell } = scene;
  const before = await readPresent(cluster).kluctlDeployment("staging");
  const head = await pushRelease(shop, proposed, branch);
  const act = () => openPullRequest(shop, branch, proposed.message);
  const { done: pullRequest, doneAt, story } = await cause(act, previews);
  tell(`\npull request ${pullRequest.number} ${JSON.stringify(proposed.message)}`);
  await tellTimeLine([moment(doneAt, "opened", `${branch} (${head.slice(0, 7)}) → main`), story], doneAt, tell);
  tellComment(story, tell);

  const opened = { pullRequest, head, commentId: story.comment()?.id, before };
  if (check)
    confirm("The pull request does not show what merging would change", await openedFacts(scene, opened), tell);
  return opened;
}

async function pushAgain(scene: Scene, opened: Opened): Promise<void> {
  const { shop, previews, check, tell } = scene;
  const { done: head, doneAt, story } = await cause(() => pushRelease(shop, added, branch), previews);
  tell(`\npush ${head.slice(0, 7)} ${JSON.stringify(added.message)} to the same branch`);
  await tellTimeLine([moment(doneAt, "git push done"), story], doneAt, tell);
  tellComment(story, tell);
  if (check) confirm("The comment was not brought up to date", await pushedFacts(scene, opened, head), tell);
}

async function merge(scene: Scene, opened: Opened): Promise<void> {
  const { shop, pushes, previews, webhooks, check, tell } = scene;
  const { pullRequest } = opened;
  let told: PreviewStory | undefined;
  const stop = previews.onEvent((story) => (told ??= story));
  const { done: commit, startedAt, doneAt, story } = await cause(pullRequest.merge, pushes);
  const delivered: Strand = {
    get steps() {
      return (told?.steps ?? []).filter(({ what }) => what.startsWith("comment"));
    },
    missing: () => told?.missing() ?? ["the server has not noticed the merge"],
    end: () => told?.end(),
  };
  tell(`\npull request ${pullRequest.number} is merged`);
  const strands = [
    moment(startedAt, "merge asked for", "by Gitea's API"),
    moment(doneAt, "merged on Gitea", commit.slice(0, 7)),
    story.until(commit),
    // Without webhooks, nothing but the deploy of the merge leads to the comment.
    webhooks ? delivered : watchComment(pullRequest, "merged into"),
    watchStatuses(shop, commit),
  ];
  await tellTimeLine(strands, startedAt, tell).finally(stop);
  tellChanges(story, tell);
  if (check) confirm("Merging did not deploy", await mergedFacts(scene, opened, { commit, story }), tell);
}

/** Prints the comment as it was posted. */
export function tellComment(story: PreviewStory, tell: Scene["tell"]): void {
  const comment = story.comment();
  if (comment === undefined) return;
  tell(`\n  ${comment.url}`);
  for (const line of comment.body.split("\n")) tell(`  │ ${line}`.trimEnd());
}
