/** What the parts of the demo need. */
import { setTimeout as delay } from "node:timers/promises";
import type { DemoCluster } from "./cluster.ts";
import type { PreviewStories } from "./preview-story.ts";
import type { PushStories } from "./push-story.ts";
import type { ShopRepository } from "./repository.ts";

/** What the part with a push needs. */
export interface PushScene {
  readonly cluster: DemoCluster;
  readonly shop: Pick<ShopRepository, "workCopy" | "head">;
  readonly pushes: PushStories;
  /** Verifies the state of the cluster and the git host at the end of each part. */
  readonly check: boolean;
  readonly tell: (line?: string) => void;
}

export interface Scene extends PushScene {
  readonly shop: ShopRepository;
  readonly previews: PreviewStories;
  /** Whether the git host has a webhook. */
  readonly webhooks: boolean;
}

const deliveryMs = 30_000;

export interface Caused<T, Story> {
  readonly done: T;
  readonly startedAt: number;
  readonly doneAt: number;
  readonly story: Story;
}

/** Runs `act` with a listener already in place; resolves with its result and with the first story that it causes. */
export async function cause<T, Story>(
  act: () => Promise<T>,
  stories: { onEvent(listener: (story: Story) => void): () => void },
): Promise<Caused<T, Story>> {
  const told = Promise.withResolvers<Story>();
  const stop = stories.onEvent(told.resolve);
  try {
    const startedAt = Date.now();
    const done = await act();
    const doneAt = Date.now();
    const story = await Promise.race([told.promise, delay(deliveryMs, undefined, { ref: false })]);
    if (story === undefined) throw new Error(`The server did not notice it within ${deliveryMs / 1_000} s.`);
    return { done, startedAt, doneAt, story };
  } finally {
    stop();
  }
}
