/** `towline demo`: its options and help. The demo itself is in dev/demo/. */
import type { Define, DemoOptions, ProgramDeps } from "./commands.ts";

const help = `
Starts a Kubernetes control plane, Redis, Gitea and \`towline serve\` on this machine. Pushes a commit and shows how it is
deployed, then opens a pull request, pushes to it and merges it. Then the demo keeps running until Ctrl-C, and shows what
happens to your own pushes and pull requests. Everything is removed at the end.

It needs Linux and git. It uses kluctl, etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok, kubectl,
redis-server and gitea from PATH if their versions are suitable. Missing ones are downloaded if their checksums are known,
otherwise built from Go modules, which needs Go and, for Gitea, gcc. They are kept in ~/.cache/towline. Gitea is last: if it
is not there when the others are, the first push goes to a plain git server, and the demo sends the webhook itself.
TOWLINE_DEMO_OFFLINE=1 downloads no releases; TOWLINE_KLUCTL=/path/to/kluctl names a program, likewise for the others.

With --kubeconfig, which needs administrator permissions, the demo creates the namespaces shop, shop-staging and shop-prod,
and deletes them at the end; the CustomResourceDefinition for KluctlDeployments stays.

Examples:
  towline demo
  towline demo --once                        Check that it works, as a test does
  towline demo --kubeconfig ~/.kube/config   Deploy to your own cluster
  npx towline demo                           Without an installation
  npm run demo -- --once                     From the sources

Exit codes:
  0  The demo was stopped; with --once, the cluster and Gitea are in the expected state
  1  A program is missing or a part of the demo failed: the output says why
  2  Invalid command line`;

interface Flags {
  readonly once: boolean;
  readonly webhooks: boolean;
  readonly kubeconfig?: string;
}

/** For the demo's own command too, which has no other dependencies. */
type DefineDemo = (
  command: Parameters<Define>[0],
  deps: Pick<ProgramDeps, "demo">,
  onCode: Parameters<Define>[2],
) => void;

export const defineDemo: DefineDemo = (command, { demo }, onCode) => {
  command
    .option("--once", "Stop after the merge, and verify the state of the cluster and Gitea", false)
    .option("--no-webhooks", "Connect no webhook: the server asks the git host every ten seconds")
    .option("--kubeconfig <file>", "Use the cluster of this kubeconfig; default: a control plane of its own")
    .addHelpText("after", help)
    .action(async (flags: Flags) => {
      const { once, webhooks, kubeconfig }: DemoOptions = flags;
      onCode(await demo({ once, webhooks, kubeconfig }));
    });
};
