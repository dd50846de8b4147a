/**
 * Checks the dashboard against the types that Grafana's own front end is compiled with. Grafana silently ignores a key
 * that it does not know, and the panel then lacks what the key was for.
 */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { useTempDir } from "../../support/world.ts";

const root = join(import.meta.dirname, "../../..");
const run = promisify(execFile);

interface Panel {
  readonly type: string;
  readonly title: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly options?: object;
  readonly fieldConfig?: { readonly defaults: { readonly custom?: object } };
}
interface Dashboard {
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly object[] };
}

const dashboard = JSON.parse(readFileSync(join(root, "chart/files/dashboard.json"), "utf8")) as Dashboard;
/** Grafana's names of the panel types that we use. */
const kinds: Readonly<Record<string, string>> = { stat: "Stat", table: "Table", timeseries: "TimeSeries" };

/** The compiler's errors; empty if there are none. */
async function check({ panels, templating, ...rest }: Dashboard): Promise<string> {
  const dir = await useTempDir();
  const lines = [
    `import type { Dashboard, Panel, RowPanel, VariableModel } from "@grafana/schema";`,
    ...Object.entries(kinds).map(
      ([type, name]) =>
        `import type * as ${type} from "@grafana/schema/dist/esm/raw/composable/${type}/panelcfg/x/${name}PanelCfg_types.gen";`,
    ),
    // In JSON, enums are their string values.
    "type Plain<T> = T extends string ? `${T}` : T extends (infer U)[] ? Plain<U>[]" +
      " : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;",
    // Grafana itself writes these although its schema lacks them: the definition of a variable as typed, and an empty
    // selection.
    `type Variable = Omit<VariableModel, "current"> & { definition?: string; current?: VariableModel["current"] | {} };`,
  ];
  const hold = (value: unknown, type: string) => lines.push(`(${JSON.stringify(value)}) satisfies Plain<${type}>;`);
  hold(rest, `Omit<Dashboard, "panels" | "templating">`);
  for (const variable of templating.list) hold(variable, "Variable");
  for (const { options, fieldConfig, ...panel } of panels) {
    lines.push(`// ${panel.title}`);
    if (panel.type === "row") {
      hold(panel, "RowPanel");
      continue;
    }
    const { custom = {}, ...defaults } = fieldConfig?.defaults ?? {};
    hold(panel, `Omit<Panel, "options" | "fieldConfig">`);
    hold(options, `Partial<${panel.type}.Options>`);
    hold({ ...fieldConfig, defaults }, `Panel["fieldConfig"]`);
    if (panel.type in kinds && panel.type !== "stat") hold(custom, `Partial<${panel.type}.FieldConfig>`);
    else hold(custom, "Record<string, never>");
  }
  await writeFile(join(dir, "dashboard.ts"), lines.join("\n"));
  const options = {
    ...{ noEmit: true, strict: true, skipLibCheck: true, types: [], module: "nodenext" },
    paths: { "*": [join(root, "node_modules/*")] },
  };
  await writeFile(join(dir, "tsconfig.json"), JSON.stringify({ compilerOptions: options, files: ["dashboard.ts"] }));
  return run(join(root, "node_modules/.bin/tsc"), ["-p", dir]).then(
    () => "",
    (error: { stdout?: string }) => error.stdout || String(error),
  );
}

test("the dashboard matches the types of Grafana's own code", async () => {
  expect(new Set(dashboard.panels.map(({ type }) => type))).toEqual(new Set(["row", ...Object.keys(kinds)]));
  expect(await check(dashboard)).toBe("");
});

test.each<[string, (panel: Panel) => Panel, RegExp]>([
  ["a key that does not exist", (panel) => ({ ...panel, colour: "red" }), /'"colour"' does not exist/],
  [
    "a word that means nothing",
    (panel) => ({ ...panel, options: { colorMode: "loud" } }),
    /'"loud"' is not assignable/,
  ],
  [
    "an option of another kind of panel",
    (panel) => ({ ...panel, options: { showHeader: true } }),
    /'"showHeader"' does not exist/,
  ],
  [
    "a unit that is a number",
    (panel) => ({ ...panel, fieldConfig: { defaults: { unit: 1 } as object } }),
    /'number' is not assignable to type 'string'/,
  ],
])("the check would find: %s", async (_, change, words) => {
  const panels = dashboard.panels.filter(({ type }) => type === "stat").slice(0, 1);
  expect(await check({ ...dashboard, panels: panels.map(change) })).toMatch(words);
});

test("panels neither overlap nor leave the grid, and each has an id of its own", () => {
  const taken = new Map<string, string>();
  for (const { title, gridPos } of dashboard.panels) {
    const { x, y, w, h } = gridPos;
    expect(x + w, title).toBeLessThanOrEqual(24);
    for (let row = y; row < y + h; row++)
      for (let column = x; column < x + w; column++) {
        expect(taken.get(`${column},${row}`), `${title} lies on it`).toBeUndefined();
        taken.set(`${column},${row}`, title);
      }
  }
  const ids = dashboard.panels.map((panel) => (panel as Panel & { id?: number }).id);
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids).not.toContain(undefined);
});
