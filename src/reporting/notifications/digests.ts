/** Joins many messages into one. Pure. */
import type { NotifyStep, StepMessage } from "./planning.ts";

const rank = { error: 0, warning: 1, info: 2 };
const mostTitles = 20;

/** One message for each channel, with the titles of what it takes the place of. */
export function digestsOf(
  joined: readonly NotifyStep[],
  now: number,
): { message: StepMessage; steps: readonly NotifyStep[] }[] {
  const groups = Map.groupBy(joined, ({ channel }) => channel);
  return [...groups.values()].flatMap((steps) => {
    const messages = steps
      .flatMap(({ message }) => message ?? [])
      .toSorted((a, b) => rank[a.severity] - rank[b.severity]);
    const [worst, ...others] = messages;
    if (worst === undefined) return [];
    if (others.length === 0) return [{ message: worst, steps }];
    const failed = messages.filter(({ severity }) => severity === "error").length;
    const lines = messages.map(({ title, severity, state }) => ({
      name: title,
      state:
        severity === "error" ? ("failed" as const) : state === "open" ? ("waiting" as const) : ("succeeded" as const),
      text: "",
    }));
    const message: StepMessage = {
      ...{ kind: worst.kind, state: worst.state, severity: worst.severity, announce: false, at: now },
      id: messages
        .map(({ id }) => id)
        .join("")
        .slice(0, 120),
      title: `${messages.length} notifications${failed > 0 ? `, ${failed} about ${failed === 1 ? "a failure" : "failures"}` : ""}`,
      lines: lines.slice(0, mostTitles),
      linesLeftOut: Math.max(0, lines.length - mostTitles),
      succeeded: 0,
    };
    return [{ message, steps }];
  });
}
