/** After the demo's own parts: shows what happens to the user's pushes and pull requests. */
import { tellComment } from "./play-pull-request.ts";
import { tellPush } from "./play-push.ts";
import type { PushStory } from "./push-story.ts";
import type { PreviewStory } from "./preview-story.ts";
import type { Scene } from "./scene.ts";
import { tellTimeLine } from "./time-line.ts";

interface Told {
  readonly branch: string;
  readonly commit: string;
  readonly endedAt: number;
}

/** Prints one time line after the other. Returns a function that stops this. */
export function tellOthers(scene: Scene, complain: (line: string) => void): () => void {
  let told: Promise<unknown> = Promise.resolve();
  const next = (work: () => Promise<void>) => {
    told = told.then(work).catch((error: unknown) => complain(error instanceof Error ? error.message : String(error)));
    return told;
  };
  let last: Told | undefined;
  const untold: PushStory[] = [];

  const unhearPushes = scene.pushes.onEvent((story) => {
    const startedAt = story.steps[0]?.at ?? Date.now();
    const overtaken = untold.filter(({ branch }) => branch === story.branch);
    untold.push(story);
    void next(async () => {
      last = await tellOnePush(scene, story, startedAt, last);
    }).finally(() => void untold.splice(untold.indexOf(story), 1));
    scene.shop.head(story.branch).then(
      (head) => head && overtaken.forEach((older) => older.overtake(head.id)),
      () => undefined, // older stories report their own failures
    );
  });
  const unhearPullRequests = scene.previews.onEvent((story) => {
    void next(() => tellOnePreview(scene, story));
  });
  return () => {
    unhearPushes();
    unhearPullRequests();
  };
}

async function tellOnePush(
  { shop, tell }: Scene,
  story: PushStory,
  startedAt: number,
  last: Told | undefined,
): Promise<Told | undefined> {
  const { branch, targets: concerned, ignored } = story;
  const head = await shop.head(branch);
  if (head && concerned.length > 0) {
    // Of several pushes in a row only the newest is shown, once, because it is the one that is deployed.
    if (last?.branch === branch && last.commit === head.id && startedAt < last.endedAt) {
      story.end();
      return last;
    }
    await tellPush(story, head.id, head.message, startedAt, tell);
    return { branch, commit: head.id, endedAt: Date.now() };
  }
  story.end();
  tell(
    concerned.length > 0
      ? `\nbranch ${branch} was deleted: its objects stay in the cluster, and the deployment reports it`
      : `\npush to ${branch}: nothing to do (${ignored.join("; ") || "no deployment follows it"})`,
  );
  return last;
}

async function tellOnePreview({ tell }: Scene, story: PreviewStory): Promise<void> {
  tell(`\npull request ${story.pullRequest.number}`);
  await tellTimeLine([story], story.steps[0]?.at ?? Date.now(), tell);
  tellComment(story, tell);
}
