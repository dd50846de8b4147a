/** The faults of an episode, injected at once or at an event of the journal. */
import { createActs } from "./acts.ts";
import type { CommentEvent } from "./forge-proxy.ts";
import type { JournalEvent } from "./journal.ts";
import { createLasting } from "./lasting.ts";
import type { Replica } from "./replica.ts";
import type { Stage } from "./stage.ts";

/** Faults of the Redis that all servers share, or of one server's connection to it. */
export const redisFaults = [
  "Redis killed",
  "Redis lost",
  "Redis frozen",
  "Redis flushed",
  "Redis full",
  "Redis goes back",
  "Redis read-only",
  "Redis cut",
  "Redis half-closes",
  "Redis silent",
  "Redis slow",
] as const;

/** Faults of the API server, or of one server's connection to it. */
export const apiFaults = [
  "API away",
  "API silent",
  "API cut",
  "API 401",
  "API 429",
  "API 500",
  "API conflicts",
  "API forgets watches",
  "API 410",
] as const;

export const faultNames = [
  "kill",
  "kill and flush",
  "terminate",
  "freeze",
  "kill starter",
  "end starter",
  "freeze starter",
  "kill kluctl",
  "end kluctl",
  "freeze kluctl",
  "kill renderers",
  ...redisFaults,
  ...apiFaults,
  "git away",
  "git silent",
  "git slow",
  "git breaks off",
  "git half-closes",
  "git drips",
  "git lags",
  "clock set",
  "disk full",
] as const;

/** They end a server, which is started again unless it is buried. */
export const endings: readonly FaultName[] = ["kill", "kill and flush", "terminate"];

/** Faults of the git host's API, for episodes with pull requests. */
export const forgeFaultNames = [
  "forge away",
  "forge silent",
  "forge slow",
  "forge drips",
  "forge breaks off",
  "forge 500",
  "forge 429",
  "token rotated",
] as const;

export type FaultName = (typeof faultNames)[number] | (typeof forgeFaultNames)[number];

/** Replacements, in episodes without sweeps, for faults whose losses only a sweep can make up for. */
const harmless: Partial<Record<FaultName, FaultName>> = {
  "kill and flush": "kill",
  "Redis lost": "Redis killed",
  "Redis flushed": "Redis killed",
  "Redis goes back": "Redis killed",
  "git lags": "git slow",
};

/** The points in a deploy at which a fault can strike. */
export const moments = [
  { event: "start", number: 0 },
  { event: "rendered", number: 0 },
  { event: "patched", number: 1 },
  { event: "patched", number: 2 },
  { event: "writing", number: 0 },
  { event: "end", number: 0 },
] as const satisfies readonly Pick<JournalEvent, "event" | "number">[];

/** Before a comment is written, and after it is written but before the server gets the answer. */
export const commentMoments = [
  { event: "telling", number: 0 },
  { event: "told", number: 0 },
] as const satisfies readonly { readonly event: CommentEvent; readonly number: 0 }[];

export type Moment = (typeof moments)[number] | (typeof commentMoments)[number];

export interface Fault {
  readonly name: FaultName;
  /** Index of the replica to strike if no run of kluctl determines it. */
  readonly victim: number;
  /** Strikes at the next such moment of a deploy or a comment; at once if absent. */
  readonly moment?: Moment | undefined;
  /** Duration; if absent, the fault lasts until everything is healed. */
  readonly forMs?: number | undefined;
  /** A replica that this fault kills is not started again. */
  readonly buries: boolean;
  /** A replica that this fault ends is started again so much later; see `restart` in acts.ts. */
  readonly restartsAfterMs?: number | undefined;
  /** Strikes at the same moment, right after this one and before the run that is struck continues. */
  readonly second?: Omit<Fault, "moment" | "second"> | undefined;
}

export interface Faults {
  /** Resolves when the fault has struck or is armed. */
  strike(fault: Fault): Promise<void>;
  isArmed(fault: Fault): boolean;
  /** The faults that struck, in words. */
  readonly struck: readonly string[];
  /**
   * Stops injecting: no armed fault strikes, no timed fault ends by itself, and no request gets a false answer any
   * more.
   */
  disarm(): void;
}

/** `say`: called with what belongs into the story of the episode. */
export function createFaults(stage: Stage, say: (words: string) => void = () => undefined): Faults {
  const armed: Fault[] = [];
  const lasting = createLasting();
  const answers: (() => void)[] = [];
  const struck: string[] = [];

  stage.journal.onEvent(async ({ event, number, run }) => {
    if (!run.mutating) return;
    const isMet = ({ moment }: Fault) =>
      moment?.event === event && moment.number === (event === "patched" ? number : 0);
    const index = armed.findIndex(isMet);
    const fault = armed[index];
    const victim = stage.replicas.find(({ name }) => name === run.replica);
    if (!fault || !victim) return;
    armed.splice(index, 1);
    await act(fault, victim, run.pid);
  });

  stage.onComment(async (event, victim) => {
    const index = armed.findIndex(({ moment }) => moment?.event === event);
    const [fault] = index === -1 ? [] : armed.splice(index, 1);
    if (fault) await act(fault, victim, undefined);
  });

  async function act(fault: Fault, victim: Replica, pid: number | undefined): Promise<void> {
    const { moment } = fault;
    const name = stage.sweeps ? fault.name : (harmless[fault.name] ?? fault.name);
    const onAnswer = (end: () => void) => void answers.push(end);
    const what = `${name} (${victim.name}${moment ? ` at ${moment.event}${moment.number || ""}` : ""})`;
    const onStrike = () => void struck.push(what);
    const acts = createActs({ stage, fault, victim, pid, lasting, onStrike, onAnswer });
    const isStruck = await acts[name]();
    if (isStruck === true) onStrike();
    if (!isStruck) say(`  ${what}: nothing to strike`);
    if (fault.second) await act({ ...fault.second, moment }, victim, pid);
  }

  return {
    struck,
    isArmed: (fault) => armed.includes(fault),
    async strike(fault) {
      if (fault.moment) armed.push(fault);
      else {
        const victim = stage.replicas[fault.victim % stage.replicas.length];
        const run = stage.journal.runs().findLast(({ replica, endedAt }) => replica === victim?.name && !endedAt);
        if (victim) await act(fault, victim, run?.pid);
      }
    },
    disarm() {
      armed.length = 0;
      for (const end of answers) end();
      lasting.stop();
    },
  };
}
