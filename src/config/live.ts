/** The configuration in effect. Consumers read `now` when they need it. */
import type { Config } from "../config.ts";

export interface LiveConfig {
  readonly now: Config;
  /** Called after each change, for consumers that cannot read `now` each time. Must not throw. */
  onChange(listener: (next: Config, previous: Config) => void): void;
  change(next: Config): void;
}

export function createLiveConfig(first: Config): LiveConfig {
  let now = first;
  const listeners: ((next: Config, previous: Config) => void)[] = [];
  return {
    get now() {
      return now;
    },
    onChange: (listener) => void listeners.push(listener),
    change(next) {
      const previous = now;
      now = next;
      for (const listener of listeners) listener(next, previous);
    },
  };
}
