// `headrace check`: reads a configuration as `serve` does and explains it, or prints every mistake.

import type { Command } from 'commander';
import { explain } from '../config/describe.ts';
import { loadConfigFile, type Mistake } from '../config/load.ts';
import { withEnginesChecked } from '../gateway/engine-settings.ts';
import type { CliIo } from './io.ts';
import { mistakeLines, readRest } from './options.ts';

const DESCRIPTION = `Reads the configuration as \`serve\` does and explains what would run: addresses, models and their servers,
what differs from the defaults, and warnings. Every mistake is reported at once, by path.
Exit code 0: fine, 1: mistakes.`;

export function configureCheck(command: Command, io: CliIo): void {
  command
    .description(DESCRIPTION)
    .usage('--config FILE [--SETTING VALUE ...]')
    .requiredOption('-c, --config <file>', 'configuration, YAML or JSON')
    .allowUnknownOption()
    .allowExcessArguments()
    .action(async ({ config }: { config: string }) => {
      const { settings } = readRest(command.args, 0);
      const resolution = withEnginesChecked(await loadConfigFile(config, io.env, settings));
      if ('mistakes' in resolution) {
        io.stdout.write(`${config}: ${countOf(resolution.mistakes)}\n${mistakeLines(resolution.mistakes)}`);
        io.exitCode = 1;
      } else {
        io.stdout.write(`${explain(resolution.settings, config)}\n`);
      }
    });
}

function countOf({ length }: readonly Mistake[]): string {
  return `${length} ${length === 1 ? 'mistake' : 'mistakes'}`;
}
