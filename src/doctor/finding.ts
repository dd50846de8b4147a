/** The result of a check: one line of the report. */

export const levels = ["ok", "warning", "problem"] as const;

/** `warning`: should be read before a swap. `problem`: something will not work. */
export type Level = (typeof levels)[number];

export interface Finding {
  readonly level: Level;
  /** `shop/staging`, `Redis` */
  readonly subject: string;
  readonly message: string;
  /** What to do. */
  readonly advice?: string | undefined;
}

export function ok(subject: string, message: string): Finding {
  return { level: "ok", subject, message };
}

export function warning(subject: string, message: string, advice?: string): Finding {
  return { level: "warning", subject, message, advice };
}

export function problem(subject: string, message: string, advice?: string): Finding {
  return { level: "problem", subject, message, advice };
}

/** The findings of one group of checks. */
export interface Section {
  readonly title: string;
  readonly findings: readonly Finding[];
}

/** 0: no warnings or problems, 1: warnings, 2: problems. */
export function exitCodeOf(sections: readonly Section[]): number {
  return Math.max(0, ...sections.flatMap(({ findings }) => findings.map(({ level }) => levels.indexOf(level))));
}
