/** What each fault does. */
import { readFileSync } from "node:fs";
import type { Fault, FaultName } from "./faults.ts";
import type { Lasting } from "./lasting.ts";
import type { Replica } from "./replica.ts";
import type { Stage } from "./stage.ts";

export interface Circumstances {
  readonly stage: Stage;
  readonly fault: Fault;
  readonly victim: Replica;
  /** The run of kluctl to strike, if one is alive. */
  readonly pid: number | undefined;
  readonly lasting: Lasting;
  /** Called by acts that strike later than they begin, once they do. */
  readonly onStrike: () => void;
  /** Called with functions that end false answers of the API server. */
  readonly onAnswer: (end: () => void) => void;
}

/** Returns whether there was anything to strike, or that this is only known later. */
export type Act = () => Promise<Struck> | Struck;
type Struck = boolean | "later";

/** While the starter is frozen for longer, processes it has started cannot be ended in time. */
const mostStarterMs = 5_000;
const usualRestartMs = 3_000;
/** With a longer lag, the server believes the answer of the lagging replica. */
const mostLagMs = 2_000;
/** Offsets to which a clock is set: back, a little ahead and far ahead. */
const clockOffsetsMs = [-3_600_000, 120_000, 3_600_000] as const;

const gone = JSON.stringify({ kind: "Status", code: 410, reason: "Expired", message: "too old resource version" });

export function createActs(circumstances: Circumstances): Record<FaultName, Act> {
  return {
    ...processActs(circumstances),
    ...redisActs(circumstances),
    ...apiActs(circumstances),
    ...gitActs(circumstances),
    ...forgeActs(circumstances),
  };
}

function processActs({ stage, fault, victim, pid, lasting }: Circumstances) {
  const { forMs, restartsAfterMs = usualRestartMs } = fault;
  const end = (name: "SIGKILL" | "SIGTERM") => {
    const ended = victim.ended();
    const isStruck = victim.kill(name);
    const startLater = () => lasting.last(`end of ${victim.name}`, restartsAfterMs, () => restart(stage, victim));
    if (isStruck) void ended.then(startLater);
    return isStruck;
  };
  const kill = () => {
    const isStruck = end("SIGKILL");
    if (isStruck && fault.buries) bury(stage, victim);
    return isStruck;
  };
  return {
    kill,
    "kill and flush": async () => {
      const isStruck = kill();
      return (await stage.redis.flush()) || isStruck;
    },
    terminate: () => end("SIGTERM"),
    freeze: () => {
      const isStruck = victim.kill("SIGSTOP");
      if (isStruck) lasting.last(`freeze ${victim.name}.${victim.pids.length}`, forMs, () => victim.kill("SIGCONT"));
      return isStruck;
    },
    "kill starter": () => victim.signalStarter("SIGKILL"),
    "end starter": () => victim.signalStarter("SIGTERM"),
    "freeze starter": () => {
      const isStruck = victim.signalStarter("SIGSTOP");
      const ms = Math.min(forMs ?? mostStarterMs, mostStarterMs);
      if (isStruck) lasting.last(`freeze starter of ${victim.name}`, ms, () => victim.signalStarter("SIGCONT"));
      return isStruck;
    },
    "kill kluctl": () => signalRun(pid, "SIGKILL"),
    "end kluctl": () => signalRun(pid, "SIGTERM"),
    "freeze kluctl": () => {
      const isStruck = signalRun(pid, "SIGSTOP");
      if (isStruck) lasting.last(`freeze ${pid}`, forMs ?? 3_000, () => signalRun(pid, "SIGCONT"));
      return isStruck;
    },
    "kill renderers": () => {
      const renderers = victim.processes().filter(({ command }) => command.includes("fork-server"));
      return renderers.filter((renderer) => signal(renderer.pid, "SIGKILL")).length > 0;
    },
    "clock set": () => victim.setClock(clockOffsetsMs[fault.victim % clockOffsetsMs.length] as number),
    "disk full": async () => {
      const isStruck = await victim.fillDisk(true);
      if (isStruck) lasting.last(`disk of ${victim.name}`, forMs, () => victim.fillDisk(false));
      return isStruck;
    },
  } satisfies Partial<Record<FaultName, Act>>;
}

/** A fault of the connection between one server and another part. */
function strikeConnection(victim: Replica, strike: () => void): Act {
  return () => {
    if (victim.isAlive()) strike();
    return victim.isAlive();
  };
}

function redisActs({ stage: { redis }, fault: { forMs }, victim, lasting, onStrike }: Circumstances) {
  const kill = (loses: boolean) => async () => {
    const isStruck = await redis.kill({ loses });
    if (isStruck) lasting.last("Redis away", forMs, () => redis.start());
    return isStruck;
  };
  const connected = (strike: () => void) => strikeConnection(victim, strike);
  return {
    "Redis killed": kill(false),
    "Redis lost": kill(true),
    "Redis frozen": () => {
      const isStruck = redis.freeze();
      if (isStruck) lasting.last("Redis frozen", forMs, () => redis.thaw());
      return isStruck;
    },
    "Redis flushed": () => redis.flush(),
    "Redis full": async () => {
      const isStruck = await redis.fill(true);
      if (isStruck) lasting.last("Redis full", forMs, () => redis.fill(false));
      return isStruck;
    },
    "Redis goes back": async () => {
      const goBack = await redis.remember();
      if (!goBack) return false;
      lasting.last(`Redis goes back ${performance.now()}`, forMs ?? 3_000, async () => {
        await goBack();
        onStrike();
      });
      return "later";
    },
    "Redis read-only": async () => {
      const isStruck = await redis.demote(true);
      if (isStruck) lasting.last("Redis read-only", forMs, () => redis.demote(false));
      return isStruck;
    },
    "Redis cut": connected(() => victim.redis.cut()),
    "Redis half-closes": connected(() => victim.redis.halfClose()),
    "Redis silent": connected(() => {
      victim.redis.blackHole(true);
      lasting.last(`Redis silent to ${victim.name}`, forMs, () => victim.redis.blackHole(false));
    }),
    "Redis slow": connected(() => {
      victim.redis.delay(300);
      lasting.last(`Redis slow to ${victim.name}`, forMs, () => victim.redis.delay(0));
    }),
  } satisfies Partial<Record<FaultName, Act>>;
}

function apiActs({ stage, fault: { forMs }, victim, lasting, onAnswer }: Circumstances) {
  const anything = () => true;
  const isWrite = (request: string) => /^(PATCH|PUT|POST) /.test(request);
  const answer = (...rule: Parameters<Replica["api"]["answer"]>) => onAnswer(victim.api.answer(...rule));
  const connected = (strike: () => void) => strikeConnection(victim, strike);
  return {
    "API away": () => {
      for (const { api } of stage.replicas) void api.close();
      lasting.last("API away", forMs ?? 5_000, () => Promise.all(stage.replicas.map(({ api }) => api.open())));
      return true;
    },
    "API silent": connected(() => {
      victim.api.blackHole(true);
      lasting.last(`API silent to ${victim.name}`, forMs, () => victim.api.blackHole(false));
    }),
    "API cut": connected(() => victim.api.cut()),
    "API 401": connected(() => answer(anything, { status: 401 }, 20)),
    "API 429": connected(() => answer(anything, { status: 429, headers: { "retry-after": "1" } }, 20)),
    "API 500": connected(() => answer(anything, { status: 500 }, 20)),
    "API conflicts": connected(() => answer(isWrite, { status: 409, body: "{}" }, 3)),
    "API forgets watches": connected(() => victim.api.endWatches()),
    "API 410": connected(() => {
      answer((request) => request.includes("watch=true"), { status: 410, body: gone }, 3);
      victim.api.endWatches();
    }),
  } satisfies Partial<Record<FaultName, Act>>;
}

function gitActs({ stage: { git, gitHost }, fault: { forMs }, lasting }: Circumstances) {
  /** All servers share the connection to the git host. */
  const always = (strike: () => void) => () => {
    strike();
    return true;
  };
  return {
    "git away": always(() => {
      git.refuse(true);
      lasting.last("git away", forMs, () => git.refuse(false));
    }),
    "git silent": always(() => {
      git.blackHole(true);
      lasting.last("git silent", forMs, () => git.blackHole(false));
    }),
    "git slow": always(() => {
      git.delay(500);
      lasting.last("git slow", forMs, () => git.delay(0));
    }),
    "git breaks off": always(() => git.resetAt(700)),
    "git half-closes": always(() => git.halfClose()),
    "git drips": always(() => {
      git.drip(true);
      lasting.last("git drips", forMs, () => git.drip(false));
    }),
    "git lags": async () => {
      if (!gitHost.lag) return false;
      await gitHost.lag(true);
      lasting.last("git lags", Math.min(forMs ?? mostLagMs, mostLagMs), () => gitHost.lag?.(false));
      return true;
    },
  } satisfies Partial<Record<FaultName, Act>>;
}

function forgeActs({ stage, fault: { forMs }, victim, lasting }: Circumstances) {
  const { forge } = victim;
  const { gitea } = stage.gitHost;
  /** Without pull requests there is no connection to the git host's API. */
  const connected = (strike: (to: NonNullable<typeof forge>) => void) => () => {
    if (forge) strike(forge);
    return forge !== undefined;
  };
  return {
    "forge away": connected(() => {
      for (const one of stage.replicas) one.forge?.refuse(true);
      lasting.last("forge away", forMs, () => stage.replicas.forEach((one) => one.forge?.refuse(false)));
    }),
    "forge silent": connected((to) => {
      to.blackHole(true);
      lasting.last(`forge silent to ${victim.name}`, forMs, () => to.blackHole(false));
    }),
    "forge slow": connected((to) => {
      to.delay(1_000);
      lasting.last(`forge slow to ${victim.name}`, forMs, () => to.delay(0));
    }),
    "forge drips": connected((to) => {
      to.drip(true);
      lasting.last(`forge drips to ${victim.name}`, forMs, () => to.drip(false));
    }),
    "forge breaks off": connected((to) => to.resetAt(300)),
    "forge 500": connected((to) => to.answer(500, 4)),
    "forge 429": connected((to) => to.answer(429, 4)),
    "token rotated": async () => {
      if (!gitea) return false;
      await gitea.rotateToken();
      const write = () => Promise.all(stage.replicas.map((replica) => replica.writeToken()));
      lasting.last("old token", forMs ?? 3_000, write);
      return true;
    },
  } satisfies Partial<Record<FaultName, Act>>;
}

/** Marks a replica as permanently dead, unless it is the last one left. */
function bury({ replicas, buried }: Stage, victim: Replica): void {
  if (replicas.some((other) => other !== victim && !buried.has(other))) buried.add(victim);
}

/**
 * Starts a server again that has ended, as a Deployment does. Without sweeps, only the last one is started again: a server
 * that starts compares everything, and so finds what the others have forgotten.
 */
async function restart({ replicas, buried, sweeps }: Stage, victim: Replica): Promise<void> {
  const isLast = !replicas.some((replica) => replica.isAlive());
  const mayStart = isLast || (sweeps && !buried.has(victim));
  if (mayStart) await [victim, ...replicas].find((replica) => !buried.has(replica))?.start();
}

/** The real kluctl is a child of the process that the journal names. */
function signalRun(pid: number | undefined, name: NodeJS.Signals): boolean {
  if (pid === undefined) return false;
  return [pid, ...childrenOf(pid)].filter((one) => signal(one, name)).length > 0;
}

function childrenOf(pid: number): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean).map(Number);
  } catch {
    return []; // the process has just ended
  }
}

/** Returns whether the process exists. */
function signal(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false; // it has just ended
  }
}
