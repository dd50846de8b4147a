import { pino } from "pino";
import { expect, test } from "vitest";
import { createFitting } from "../../../src/app/fitting-concurrency.ts";
import { readMemory } from "../../../src/machine/available-memory.ts";

function useFitting(configured: number) {
  const state = { configured, usedBytes: 50 };
  const allowed: number[] = [];
  const fitting = createFitting({
    configured: () => state.configured,
    read: () => ({ limitBytes: 100, usedBytes: state.usedBytes }),
    allow: (concurrency) => void allowed.push(concurrency),
    log: pino({ level: "silent" }),
  });
  return { state, fitting, allowed };
}

test("fewer jobs run at once while memory is short, and the configured number runs again when memory is free", () => {
  const { state, fitting, allowed } = useFitting(8);
  fitting.look();
  expect(allowed).toEqual([]);
  state.usedBytes = 95;
  for (let i = 0; i < 5; i++) fitting.look();
  expect(allowed).toEqual([4, 2, 1]);
  state.usedBytes = 80; // neither short nor free enough for more
  fitting.look();
  expect(fitting.allowed).toBe(1);
  state.usedBytes = 50;
  for (let i = 0; i < 20; i++) fitting.look();
  expect(allowed.slice(3)).toEqual([2, 3, 4, 5, 6, 7, 8]);
});

test("the configured concurrency is never exceeded, also when it changes while reduced", () => {
  const { state, fitting } = useFitting(8);
  state.usedBytes = 95;
  fitting.look();
  state.configured = 2;
  expect(fitting.allowed).toBe(1);
  state.usedBytes = 50;
  for (let i = 0; i < 9; i++) fitting.look();
  expect(fitting.allowed).toBe(2);
});

const from = (files: Readonly<Record<string, string>>) => (path: string) => {
  const text = files[path];
  if (text === undefined) throw new Error(`there is no ${path}`);
  return text;
};
const mebibyte = 1024 ** 2;

test("a container's memory limit is read from cgroup v2 and v1, without the cache that the kernel can reclaim", () => {
  const v2 = {
    "/sys/fs/cgroup/memory.max": `${512 * mebibyte}\n`,
    "/sys/fs/cgroup/memory.current": `${400 * mebibyte}\n`,
    "/sys/fs/cgroup/memory.stat": `anon 1\ninactive_file ${60 * mebibyte}\nactive_file ${40 * mebibyte}\n`,
  };
  const expected = { limitBytes: 512 * mebibyte, usedBytes: 300 * mebibyte };
  expect(readMemory(from(v2))).toEqual(expected);
  const v1 = {
    "/sys/fs/cgroup/memory/memory.limit_in_bytes": `${512 * mebibyte}\n`,
    "/sys/fs/cgroup/memory/memory.usage_in_bytes": `${400 * mebibyte}\n`,
    "/sys/fs/cgroup/memory/memory.stat": `inactive_file 5\ntotal_inactive_file ${60 * mebibyte}\ntotal_active_file ${40 * mebibyte}\n`,
  };
  expect(readMemory(from(v1))).toEqual(expected);
});

test("without a container limit the machine's memory counts", () => {
  const machine = readMemory(from({ "/proc/meminfo": "MemTotal: 1 kB\nMemAvailable:    1024 kB\n" }));
  expect(machine.limitBytes - machine.usedBytes).toBe(mebibyte);
  const unlimited = { "/sys/fs/cgroup/memory.max": "max\n", "/sys/fs/cgroup/memory.current": "1\n" };
  expect(readMemory(from(unlimited)).limitBytes).toBe(machine.limitBytes);
});
