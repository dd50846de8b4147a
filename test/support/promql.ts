/** Finds the names in an expression of Prometheus. Suitable for our own expressions, whose syntax promtool checks. */

const words = new Set(
  (
    "by without on ignoring group_left group_right and or unless bool offset inf nan " +
    "sum min max avg count histogram_quantile rate increase absent vector label_values"
  ).split(" "),
);

export interface Named {
  readonly metrics: ReadonlySet<string>;
  readonly labels: ReadonlySet<string>;
}

export function namesOf(expression: string): Named {
  const labels = new Set<string>();
  const rest = expression
    .replaceAll(/"(?:[^"\\]|\\.)*"/g, '""')
    .replaceAll(/\{([^}]*)\}/g, (_, inside: string) => {
      for (const [, label = ""] of inside.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)) labels.add(label);
      return " ";
    })
    .replaceAll(/\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)/g, (_, inside: string) => {
      for (const [label] of inside.matchAll(/\w+/g)) labels.add(label);
      return " ";
    })
    .replaceAll(/\[[^\]]*\]/g, " ");
  const names = [...rest.matchAll(/(?<![\w$.])[a-zA-Z_:][\w:]*/g)].map(([name]) => name);
  return { metrics: new Set(names.filter((name) => !words.has(name))), labels };
}
