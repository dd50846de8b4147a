/** What goes wrong in an episode, now or at an event of the journal. */
import type { JournalEvent } from "./journal.ts";
import type { Replica } from "./replica.ts";
import type { Stage } from "./stage.ts";

export const faultNames = [
  "kill",
  "kill and flush",
  "terminate",
  "freeze",
  "kill starter",
  "kill kluctl",
  "freeze kluctl",
  "kill renderers",
  "Redis killed",
  "Redis lost",
  "Redis frozen",
  "Redis flushed",
  "Redis full",
  "Redis goes back",
  "Redis read-only",
  "Redis cut",
  "Redis silent",
  "Redis slow",
  "API away",
  "API silent",
  "API cut",
  "API 401",
  "API 429",
  "API 500",
  "API conflicts",
  "API forgets watches",
  "git away",
  "git silent",
  "git slow",
  "git breaks off",
  "git half-closes",
  "clock set",
  "disk full",
] as const;

export type FaultName = (typeof faultNames)[number];

/** What takes the place of losses that nothing but a look at all of git makes up for, where nobody takes one. */
const harmless: Partial<Record<FaultName, FaultName>> = {
  "kill and flush": "kill",
  "Redis lost": "Redis killed",
  "Redis flushed": "Redis killed",
  "Redis goes back": "Redis killed",
};

/** Where in the work of a deploy it strikes. */
export const moments = [
  { event: "start", number: 0 },
  { event: "rendered", number: 0 },
  { event: "patched", number: 1 },
  { event: "patched", number: 2 },
  { event: "writing", number: 0 },
  { event: "end", number: 0 },
] as const satisfies readonly Pick<JournalEvent, "event" | "number">[];

export type Moment = (typeof moments)[number];

export interface Fault {
  readonly name: FaultName;
  /** Index of the replica that it strikes when no run of kluctl says which one. */
  readonly victim: number;
  /** At the next such moment of a deploy; at once, if left out. */
  readonly moment?: Moment | undefined;
  /** So long it lasts; otherwise until everything is healed. */
  readonly forMs?: number | undefined;
  /** A replica that is killed stays dead. */
  readonly buries: boolean;
}

export interface Faults {
  /** Resolves when it has struck, or is armed. */
  strike(fault: Fault): Promise<void>;
  isArmed(fault: Fault): boolean;
  /** Those that were struck, in words. */
  readonly struck: readonly string[];
  /** No fault strikes from now on, none ends by itself, and no request is answered wrongly any more. */
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

  /** Another one is left to go on. */
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
    const { redis, git } = stage;
    const where = moment ? ` at ${moment.event}${moment.number || ""}` : "";
    struck.push(`${name} (${victim.name}${where})`);
    const signal = (to: number | undefined, what: NodeJS.Signals) => {
      try {
        if (to) process.kill(to, what);
      } catch {
        // It has just ended.
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
      "kill starter": () => victim.killStarter(),
      "kill kluctl": () => signal(pid, "SIGKILL"),
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
      "clock set": () => victim.setClock((fault.victim - 1) * 3_600_000),
      "disk full": async () => {
        await victim.fillDisk(true);
        after(forMs, () => void victim.fillDisk(false));
      },
    };
    await byName[name]();
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
