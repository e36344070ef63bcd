"""The faces of the one service layer; a surface holds no rule of its own (chapter 12)."""
