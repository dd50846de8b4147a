/** Hooks that the views share: the clock, the route, and data from the server. */
import type { RefObject } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { PageManifests, PagePullRequestDetails } from "../src/web/facts.ts";
import { ask, askLinked, askReport, type Known, tellLost } from "./api.ts";
import { messageOf } from "./words.ts";

/** The current time, updated regularly so that displayed ages advance. */
export function useNow(everyMs = 5_000): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

/** The path after the `#`, split at slashes. */
export function useRoute(): readonly string[] {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const moved = () => setHash(location.hash);
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return hash
    .replace(/^#\/?/, "")
    .replace(/\?.*$/s, "")
    .split("/")
    .filter((part) => part !== "")
    .map(decoded);
}

/** The filters in the address after the `?`, so that they survive a reload. */
export function readPicked(): URLSearchParams {
  return new URLSearchParams(/\?(.*)$/s.exec(location.hash)?.[1] ?? "");
}

/** Stores filters in the address without a new history entry or request. */
export function keepPicked(picked: Readonly<Record<string, string>>): void {
  const text = new URLSearchParams(Object.entries(picked).filter(([, value]) => value !== "")).toString();
  const [place = "", before = ""] = location.hash.split("?", 2);
  if (text !== before) history.replaceState(null, "", `${place || "#/deployments"}${text && `?${text}`}`);
}

/** Focuses the search field on `/`, unless the user is typing. */
export function useSearchKey(field: RefObject<HTMLInputElement | null>): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const writes = event.target instanceof HTMLElement && event.target.closest("input, textarea, dialog");
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || writes) return;
      event.preventDefault();
      field.current?.focus();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [field]);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export type Fact<T> = { readonly value?: T; readonly problem?: string };

/** Reads `path` again every `everyMs` and whenever `version` changes; reads nothing if `path` is `undefined`. */
export function useFact<T>(path: string | undefined, everyMs?: number, version: unknown = 0): Fact<T> {
  const [fact, setFact] = useState<Fact<T> & { path?: string | undefined }>({});
  useEffect(() => {
    if (path === undefined) return undefined;
    const controller = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    async function read(): Promise<void> {
      try {
        const value = await ask<T>(path ?? "", controller.signal);
        if (!controller.signal.aborted) setFact({ path, value });
      } catch (error) {
        if (controller.signal.aborted) return;
        tellLost(error);
        setFact((before) => ({ ...before, path, problem: messageOf(error) }));
      }
      if (everyMs !== undefined && !controller.signal.aborted) timer = setTimeout(() => void read(), everyMs);
    }
    void read();
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [path, everyMs, version]);
  return fact.path === path ? fact : {};
}

const reportEveryMs = 15_000;
const workingEveryMs = 2_000;

/** Reads one pull request again and again, more often while it is being compared. `link`: see askReport. */
export function useReport(path: string, link: string | undefined): Fact<PagePullRequestDetails> {
  const [fact, setFact] = useState<Fact<PagePullRequestDetails>>({});
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let known: Known<PagePullRequestDetails> | undefined;
    async function read(): Promise<void> {
      try {
        known = await askReport(path, { link, known, signal });
        const { value } = known;
        if (!signal.aborted) setFact((before) => (before.value === value && !before.problem ? before : { value }));
      } catch (error) {
        if (signal.aborted) return;
        tellLost(error);
        setFact((before) => ({ ...before, problem: messageOf(error) }));
      }
      const everyMs = known?.value.state === "working" ? workingEveryMs : reportEveryMs;
      if (!signal.aborted) timer = setTimeout(() => void read(), everyMs);
    }
    void read();
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [path, link]);
  return fact;
}

export type ReadManifests = (deployment: string) => Promise<PageManifests>;

/** Reads the manifests of a deployment when they are asked for, once for each preview. `link`: see askReport. */
export function useManifests(place: string, link: string | undefined, startedAt: number | undefined): ReadManifests {
  return useMemo(() => {
    const known = new Map<string, Promise<PageManifests>>();
    return (deployment) => {
      const before = known.get(deployment);
      if (before !== undefined) return before;
      const read = askLinked<PageManifests>(`manifests/${place}?deployment=${encodeURIComponent(deployment)}`, link);
      known.set(deployment, read);
      read.catch(() => known.delete(deployment)); // it is asked for again
      return read;
    };
  }, [place, link, startedAt]);
}
