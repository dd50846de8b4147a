/** The faults of an episode, injected at once or at an event of the journal. */
import { readFileSync } from "node:fs";
import type { CommentEvent } from "./forge-proxy.ts";
import type { JournalEvent } from "./journal.ts";
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

/** With a longer lag, the server believes the answer of the lagging replica. */
const mostLagMs = 2_000;
/** While the starter is frozen for longer, processes it has started cannot be ended in time. */
const mostStarterMs = 5_000;

const gone = JSON.stringify({ kind: "Status", code: 410, reason: "Expired", message: "too old resource version" });

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

export function createFaults(stage: Stage): Faults {
  const armed: Fault[] = [];
  const timers = new Set<NodeJS.Timeout>();
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

  /** Marks a replica as permanently dead, unless it is the last one left. */
  function bury(victim: Replica): void {
    if (stage.replicas.some((other) => other !== victim && !stage.buried.has(other))) stage.buried.add(victim);
  }

  function kill(victim: Replica, { buries }: Fault): void {
    victim.kill("SIGKILL");
    if (buries) bury(victim);
  }

  function after(ms: number | undefined, end: () => unknown): void {
    if (ms === undefined) return;
    const timer = setTimeout(() => {
      timers.delete(timer);
      end();
    }, ms);
    timers.add(timer);
  }

  async function act(fault: Fault, victim: Replica, pid: number | undefined): Promise<void> {
    const { moment, forMs } = fault;
    const name = stage.sweeps ? fault.name : (harmless[fault.name] ?? fault.name);
    const { redis, git, gitHost } = stage;
    const where = moment ? ` at ${moment.event}${moment.number || ""}` : "";
    struck.push(`${name} (${victim.name}${where})`);
    const signal = (to: number | undefined, what: NodeJS.Signals) => {
      try {
        // The real kluctl is a child of the process that the journal names.
        if (to) for (const one of [to, ...childrenOf(to)]) process.kill(one, what);
      } catch {
        // The process has just ended.
      }
    };
    const anything = () => true;
    const isWrite = (request: string) => /^(PATCH|PUT|POST) /.test(request);
    const answer = (...rule: Parameters<Replica["api"]["answer"]>) => answers.push(victim.api.answer(...rule));
    const byName: Record<FaultName, () => unknown> = {
      kill: () => kill(victim, fault),
      "kill and flush": async () => {
        kill(victim, fault);
        await redis.flush();
      },
      terminate: () => victim.kill("SIGTERM"),
      freeze: () => {
        victim.kill("SIGSTOP");
        after(forMs, () => victim.kill("SIGCONT"));
      },
      "kill starter": () => victim.signalStarter("SIGKILL"),
      "freeze starter": () => {
        victim.signalStarter("SIGSTOP");
        after(Math.min(forMs ?? mostStarterMs, mostStarterMs), () => victim.signalStarter("SIGCONT"));
      },
      "kill kluctl": () => signal(pid, "SIGKILL"),
      "end kluctl": () => signal(pid, "SIGTERM"),
      "freeze kluctl": () => {
        signal(pid, "SIGSTOP");
        after(forMs ?? 3_000, () => signal(pid, "SIGCONT"));
      },
      "kill renderers": () =>
        victim
          .processes()
          .forEach(({ pid: one, command }) => command.includes("fork-server") && signal(one, "SIGKILL")),
      "Redis killed": async () => {
        await redis.kill();
        after(forMs, () => void redis.start());
      },
      "Redis lost": async () => {
        await redis.kill({ loses: true });
        after(forMs, () => void redis.start());
      },
      "Redis frozen": () => {
        redis.freeze();
        after(forMs, () => redis.thaw());
      },
      "Redis flushed": () => redis.flush(),
      "Redis full": async () => {
        await redis.fill(true);
        after(forMs, () => void redis.fill(false));
      },
      "Redis goes back": async () => {
        const goBack = await redis.remember();
        after(forMs ?? 3_000, () => void goBack());
      },
      "Redis read-only": async () => {
        await redis.demote(true);
        after(forMs, () => void redis.demote(false));
      },
      "Redis cut": () => victim.redis.cut(),
      "Redis half-closes": () => victim.redis.halfClose(),
      "Redis silent": () => {
        victim.redis.blackHole(true);
        after(forMs, () => victim.redis.blackHole(false));
      },
      "Redis slow": () => {
        victim.redis.delay(300);
        after(forMs, () => victim.redis.delay(0));
      },
      "API away": () => {
        for (const { api } of stage.replicas) void api.close();
        after(forMs ?? 5_000, () => {
          for (const { api } of stage.replicas) void api.open();
        });
      },
      "API silent": () => {
        victim.api.blackHole(true);
        after(forMs, () => {
          victim.api.blackHole(false);
          victim.api.cut();
        });
      },
      "API cut": () => victim.api.cut(),
      "API 401": () => answer(anything, { status: 401 }, 20),
      "API 429": () => answer(anything, { status: 429, headers: { "retry-after": "1" } }, 20),
      "API 500": () => answer(anything, { status: 500 }, 20),
      "API conflicts": () => answer(isWrite, { status: 409, body: "{}" }, 3),
      "API forgets watches": () => victim.api.endWatches(),
      "API 410": () => {
        answer((request) => request.includes("watch=true"), { status: 410, body: gone }, 3);
        victim.api.endWatches();
      },
      "git away": () => {
        git.refuse(true);
        after(forMs, () => git.refuse(false));
      },
      "git silent": () => {
        git.blackHole(true);
        after(forMs, () => git.blackHole(false));
      },
      "git slow": () => {
        git.delay(500);
        after(forMs, () => git.delay(0));
      },
      "git breaks off": () => git.resetAt(700),
      "git half-closes": () => git.halfClose(),
      "git drips": () => {
        git.drip(true);
        after(forMs, () => git.drip(false));
      },
      "git lags": async () => {
        await gitHost.lag?.(true);
        after(Math.min(forMs ?? mostLagMs, mostLagMs), () => void gitHost.lag?.(false));
      },
      "forge away": () => {
        for (const { forge } of stage.replicas) forge?.refuse(true);
        after(forMs, () => stage.replicas.forEach(({ forge }) => forge?.refuse(false)));
      },
      "forge silent": () => {
        victim.forge?.blackHole(true);
        after(forMs, () => victim.forge?.blackHole(false));
      },
      "forge slow": () => {
        victim.forge?.delay(1_000);
        after(forMs, () => victim.forge?.delay(0));
      },
      "forge drips": () => {
        victim.forge?.drip(true);
        after(forMs, () => victim.forge?.drip(false));
      },
      "forge breaks off": () => victim.forge?.resetAt(300),
      "forge 500": () => victim.forge?.answer(500, 4),
      "forge 429": () => victim.forge?.answer(429, 4),
      "token rotated": async () => {
        await gitHost.gitea?.rotateToken();
        const write = () => Promise.all(stage.replicas.map((replica) => replica.writeToken()));
        after(forMs ?? 3_000, () => void write());
      },
      "clock set": () => victim.setClock((fault.victim - 1) * 3_600_000),
      "disk full": async () => {
        await victim.fillDisk(true);
        after(forMs, () => void victim.fillDisk(false));
      },
    };
    await byName[name]();
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
      for (const timer of timers) clearTimeout(timer);
      timers.clear();
    },
  };
}

function childrenOf(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8");
  return children.split(" ").filter(Boolean).map(Number);
}
