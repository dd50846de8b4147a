/**
 * Programs that the documentation calls and `npm test` does not run: the subcommands and options that are used, as the
 * programs themselves define them. Anything else is an error of the page, or is added here after a check that the
 * program has it.
 */
interface Foreign {
  /** The reason why it is not run. */
  readonly why: string;
  /** The source of the following. */
  readonly seen: string;
  /** Options by subcommand; their values are not checked. */
  readonly knows: Readonly<Record<string, readonly string[]>>;
}

export const notRun: Readonly<Record<string, Foreign>> = {
  argocd: {
    why: "takes long to build; npm run test:foreign runs it, with Argo CD",
    seen: "its help, by npm run test:foreign",
    knows: {
      "app list": [],
      "app get": [],
      "app sync": [],
      "app diff": ["--local"],
      "app set": ["--sync-policy"],
      "app delete": ["--cascade"],
    },
  },
  cosign: {
    why: "takes long to build; npm run test:foreign signs with it and verifies",
    seen: "its help, by npm run test:foreign",
    knows: {
      verify: ["--certificate-identity-regexp", "--certificate-oidc-issuer"],
      "verify-attestation": ["--type", "--certificate-identity-regexp", "--certificate-oidc-issuer"],
    },
  },
  docker: {
    why: "needs an engine; npm run test:image builds, starts and composes for real, npm run test:foreign inspects",
    seen: "the help of docker 28.2 and the source of buildx 0.30; compose is run by npm run test:image",
    knows: {
      build: ["--build-arg", "-t"],
      run: ["--rm", "--read-only", "--cap-drop", "--security-opt", "-v", "-e", "-p"],
      compose: ["--profile"],
      "compose up": [],
      "buildx imagetools inspect": ["--format"],
    },
  },
  flux: {
    why: "takes long to build; npm run test:foreign runs it, with Flux's controllers",
    seen: "its help, by npm run test:foreign",
    knows: {
      "get kustomizations": [],
      "reconcile kustomization": ["--with-source"],
      "suspend kustomization": [],
      "suspend helmrelease": ["--namespace"],
      "resume kustomization": [],
      "diff kustomization": ["--path"],
      trace: [],
    },
  },
};

/** Returns what is wrong with a call, if anything. */
export function objectionTo(program: string, argv: readonly string[]): string | undefined {
  const { knows = {} } = notRun[program] ?? {};
  const words = argv.filter((arg) => !arg.startsWith("-"));
  const fitting = Object.keys(knows).filter((name) => ` ${words.join(" ")} `.includes(` ${name} `));
  const command = fitting.toSorted((a, b) => b.length - a.length)[0];
  if (command === undefined) return `${program} ${argv.join(" ")} : nobody has seen that it has this subcommand`;
  const known = fitting.flatMap((name) => knows[name] ?? []);
  const unknown = argv.filter((arg) => arg.startsWith("-")).map((arg) => arg.replace(/=.*/s, ""));
  const wrong = unknown.filter((option) => !known.includes(option));
  return wrong.length === 0
    ? undefined
    : `${program} ${argv.join(" ")} : nobody has seen that it has ${wrong.join(", ")}`;
}
