/**
 * kluctl writes the times of its results by the machine's clock. If that is set back while the server runs, the server's
 * own clock goes on, and a result that has just ended would look old: a `deployInterval` would be over again at once,
 * and a validation would look older than the deploy before it.
 */
import { around } from "../kit/around.ts";
import { fieldsOf } from "../kit/json.ts";
import { rfc3339, timeOf } from "../kit/time.ts";
import type { CommandResult, ValidateResult } from "../model.ts";
import type { Clock, Kluctl } from "../ports.ts";

/** kluctl's times are in whole seconds in some versions. */
const roundedMs = 1_000;

/** Moves the times of a result that ended, by its own words, before it began. */
export function withSteadyTimes<K extends Kluctl>(kluctl: K, clock: Clock): K {
  async function command(run: () => Promise<CommandResult>): Promise<CommandResult> {
    const begun = clock.now();
    const result = await run();
    const { document } = result;
    const times = steady(fieldsOf(document["command"]), begun, clock);
    return times ? { ...result, document: { ...document, command: times } } : result;
  }
  async function validation(run: () => Promise<ValidateResult>): Promise<ValidateResult> {
    const begun = clock.now();
    const result = await run();
    const document = steady(result.document, begun, clock);
    return document ? { ...result, document } : result;
  }
  return around<Kluctl, K>(kluctl, {
    diff: (next, ...asked) => command(() => next(...asked)),
    deploy: (next, ...asked) => command(() => next(...asked)),
    pokeImages: (next, ...asked) => command(() => next(...asked)),
    prune: (next, ...asked) => command(() => next(...asked)),
    delete: (next, ...asked) => command(() => next(...asked)),
    validate: (next, ...asked) => validation(() => next(...asked)),
  });
}

function steady(times: Record<string, unknown>, begun: number, clock: Clock): Record<string, unknown> | undefined {
  const { startTime, endTime } = times;
  if (typeof endTime !== "string" || timeOf(endTime) > begun - roundedMs) return undefined;
  const behind = clock.now() - timeOf(endTime);
  const moved = (time: unknown) => (typeof time === "string" ? rfc3339(timeOf(time) + behind) : time);
  return { ...times, startTime: moved(startTime), endTime: moved(endTime) };
}
