/** The hostile user on a root host, with kernels in sandboxes. */

import { attackTable } from './row.ts';
import { rows } from './rows.ts';

attackTable('subprocess', rows);
