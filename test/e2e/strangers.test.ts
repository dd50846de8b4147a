/** Senders without the secret at the webhook port of a running server, next to a git host that delivers. */
import { expect, onTestFinished, test, vi } from "vitest";
import { startStrangers } from "../../dev/bench/strangers.ts";
import { patience } from "../support/patience.ts";
import { sendPush, useTowlineProcess } from "../support/towline.ts";
import { useWorld } from "../support/world.ts";

test("senders without the secret that hold bodies and connections do not keep out genuine deliveries from the same address", async () => {
  const world = await useWorld();
  const { webhooksUrl } = await useTowlineProcess(world);
  const start = async (large: number, dribbling: number, dribblingHeaders: number) => {
    const strangers = startStrangers({ url: webhooksUrl, large, dribbling, dribblingHeaders });
    onTestFinished(() => strangers.stop());
    await vi.waitFor(() => expect(strangers.begun()).toBe(large + dribbling + dribblingHeaders), patience);
  };
  await start(8, 0, 0);
  await start(0, 1_000, 100);

  const push = { repo: "https://git.example.com/shop/shop.git", after: "3".repeat(40) };
  const answers: Promise<number>[] = [];
  await new Promise<void>((resolve) => {
    const deliveries = setInterval(() => {
      const answer = sendPush(webhooksUrl, push);
      answers.push(answer.then(({ status }) => status));
      if (answers.length < 50 * 15) return;
      clearInterval(deliveries);
      resolve();
    }, 20);
  });
  const statuses = await Promise.allSettled(answers);
  expect(statuses.filter((one) => one.status !== "fulfilled" || one.value !== 202)).toEqual([]);
});
