/** The hostile user on a root host, with kernels in containers. */

import { attackTable } from './row.ts';
import { rows } from './rows.ts';

attackTable('container', rows);
