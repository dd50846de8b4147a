/** What every notifier that reaches its target by HTTP does if there is no answer, or no usable address. */
import { expect, test } from "vitest";
import type { Notification } from "../../src/model.ts";
import type { Notifier, SendOptions } from "../../src/ports.ts";
import { failureOf, unreachableTarget, useTarget } from "./notify-targets.ts";

interface TestedTarget {
  /** `a controller` */
  readonly what: string;
  readonly connect: (options: {
    readonly url: string;
  }) => (message: Notification, more?: Partial<SendOptions>) => ReturnType<Notifier["send"]>;
  readonly sample: () => Notification;
}

export function testWithoutAnswer({ what, connect, sample }: TestedTarget): void {
  test(`${what} that cannot be reached is tried again later`, async () => {
    const origin = await unreachableTarget();
    const error = await failureOf(connect({ url: `${origin}/canary` })(sample()), /canary/);
    expect(error).toMatchObject({ problem: "later" });
    expect(error.message).toContain(new URL(origin).host);
  });

  test("an aborted signal ends the request with its reason", async () => {
    const url = await useTarget(() => undefined);
    const controller = new AbortController();
    const reason = new Error("stopping");
    const sending = connect({ url })(sample(), { signal: controller.signal });
    controller.abort(reason);
    await expect(sending).rejects.toBe(reason);
    await expect(connect({ url })(sample(), { signal: controller.signal })).rejects.toBe(reason);
  });

  test("an address that cannot be used is refused without being repeated", () => {
    for (const url of ["https://user:canary@example.com", "ftp://canary.example", "canary"]) {
      expect(() => connect({ url })).toThrow(/^url: must/);
      expect(() => connect({ url })).not.toThrow(/canary/);
    }
  });
}
